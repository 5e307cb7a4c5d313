import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const hasBrowsers =
  process.env.CARILLON_WITH_BROWSERS === '1' ||
  ['/usr/bin/firefox-esr', '/usr/bin/chromium'].every((path) => existsSync(path));

const swc = {
  swcrc: false,
  jsc: { target: 'es2024', parser: { syntax: 'typescript' } },
  module: { type: 'es6' },
};

export default {
  rootDir: fileURLToPath(new URL('..', import.meta.url)),
  testMatch: [
    '<rootDir>/test/**/*.test.ts',
    '<rootDir>/packages/*/test/**/*.test.ts',
    '<rootDir>/services/*/test/**/*.test.ts',
  ],
  // These need packages of PyPI and real browsers, which not every machine that runs the tests has.
  testPathIgnorePatterns: [
    ...(process.env.CARILLON_WITH_PYTHON === '1' ? [] : ['/test/with-python/']),
    ...(hasBrowsers ? [] : ['<rootDir>/test/web-push/']),
  ],
  modulePathIgnorePatterns: ['<rootDir>/\\.carillon/'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '\\.ts$': ['@swc/jest', swc] },
  testEnvironment: '<rootDir>/test/support/jest/strict-environment.mjs',
  reporters: ['default', '<rootDir>/test/support/jest/closing-reporter.mjs'],
  injectGlobals: false,
  fakeTimers: { enableGlobally: false },
  // A whole stack is started in a beforeAll, which counts against this too.
  testTimeout: 60_000,
  // A stack is a dozen processes, and the guarantees have bounds in seconds: one file at a time.
  maxWorkers: 1,
  watchman: false,
};
