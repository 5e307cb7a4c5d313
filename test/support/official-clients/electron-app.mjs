// An app with the real pushy-electron. Only the module `electron` is a stand-in. The test names over IPC what to call.

import { createRequire } from 'node:module';
import './electron-stand-in.mjs';

const require = createRequire(import.meta.url);
const Pushy = require('pushy-electron');
// The SDK may still report while the test has already let go.
const sendToParent = (what) => process.connected && process.send(what, () => undefined);
Pushy.setNotificationListener((payload) => sendToParent({ payload }));
Pushy.setConnectivityListener((connected) => sendToParent({ connected }));

process.on('message', async ({ id, method, args }) => {
  try {
    sendToParent({ id, result: (await Pushy[method](...args)) ?? null });
  } catch (error) {
    sendToParent({ id, error: error.message });
  }
});
process.on('disconnect', () => process.exit(0));
sendToParent({ ready: true });
