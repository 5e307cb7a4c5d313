// An app with the real pushy-electron. Only the module `electron` is a stand-in: what the SDK uses of
// it is a folder for its settings. The test tells it over IPC what to call.

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
const tell = (what) => process.connected && process.send(what, () => undefined);
Pushy.setNotificationListener((payload) => tell({ payload }));
Pushy.setConnectivityListener((connected) => tell({ connected }));

process.on('message', async ({ id, method, args }) => {
  try {
    tell({ id, result: (await Pushy[method](...args)) ?? null });
  } catch (error) {
    tell({ id, error: error.message });
  }
});
process.on('disconnect', () => process.exit(0));
tell({ ready: true });
