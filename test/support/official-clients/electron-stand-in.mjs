// A stand-in for the module `electron`, loaded before an app: what the SDK uses of it is a folder for its settings, the
// working folder. A notification that the app shows is a line of JSON.

import Module from 'node:module';

class Notification {
  constructor(options) {
    this.options = options;
  }
  show() {
    process.stdout.write(`${JSON.stringify(this.options)}\n`);
  }
}

const app = {
  whenReady: async () => undefined,
  getPath: () => process.cwd(),
  getName: () => 'app',
  getVersion: () => '1.0.0',
  name: 'app',
};
const electron = {
  app,
  Notification,
  ipcMain: { on: () => undefined },
  dialog: { showMessageBox: () => undefined },
  shell: {},
};

const load = Module._load;
Module._load = (name, ...rest) => (name === 'electron' ? electron : load(name, ...rest));
