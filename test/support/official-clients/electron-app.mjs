// An app with the real pushy-electron. Only the module `electron` is a stand-in: what the SDK uses of
// it is a folder for its settings. The test names over IPC what to call.

import Module, { createRequire } from 'node:module';

const folder = process.argv[2];
const electron = {
  app: { getPath: () => folder, getName: () => 'app', getVersion: () => '1.0.0', name: 'app' },
  ipcMain: { on: () => undefined },
  dialog: { showMessageBox: () => undefined },
  shell: {},
};

const load = Module._load;
Module._load = (name, ...rest) => (name === 'electron' ? electron : load(name, ...rest));

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
