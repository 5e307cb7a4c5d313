import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findLeftOut } from './support/jest/left-out.mjs';
import { readTiers } from './support/jest/tiers.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const JEST = '<rootDir>/test/support/jest';

// The files of a tier share the images, which take minutes to build.
const hasImages = process.argv.some((arg) => arg.includes('deploy') || arg.includes('rolling'));
if (hasImages && process.env.CARILLON_IMAGE_STORAGE === undefined) {
  const storage = mkdtempSync(join(tmpdir(), 'images-'));
  process.env.CARILLON_IMAGE_STORAGE = storage;
  process.once('exit', () => rmSync(storage, { recursive: true, force: true, maxRetries: 3 }));
}

/** Settings of tiers whose files run side by side in a way of their own. */
const SIDE_BY_SIDE = {
  fast: {
    runner: `${JEST}/fast-runner.mjs`,
    runtime: `${JEST}/fast-runtime.mjs`,
    testEnvironment: `${JEST}/fast-environment.mjs`,
  },
  stack: { runner: `${JEST}/stack-runner.mjs` },
};
const ONE_BY_ONE = { runner: `${JEST}/serial-runner.mjs` };

const swc = {
  swcrc: false,
  jsc: { target: 'es2024', parser: { syntax: 'typescript' } },
  module: { type: 'es6' },
};

const common = {
  rootDir: ROOT,
  // In the folder for temporary files, which each run has to itself, all files would be transformed anew.
  cacheDirectory: `${ROOT}node_modules/.cache/jest`,
  testPathIgnorePatterns: findLeftOut(process.argv),
  modulePathIgnorePatterns: ['<rootDir>/\\.carillon/'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '\\.ts$': ['@swc/jest', swc] },
  testEnvironment: `${JEST}/strict-environment.mjs`,
  injectGlobals: false,
  fakeTimers: { enableGlobally: false },
};

/** Files of a tier, with the settings that they need; Jest knows both halves of a tier by one name. */
function projectOf(name, settings, files) {
  const testMatch = files.map((path) => `<rootDir>/${path}`);
  return files.length > 0 ? [{ ...common, displayName: name, testMatch, ...settings }] : [];
}

export default {
  rootDir: ROOT,
  projects: readTiers(ROOT).flatMap(({ name, sideBySide, oneByOne }) => [
    ...projectOf(name, SIDE_BY_SIDE[name] ?? {}, sideBySide),
    ...projectOf(name, ONE_BY_ONE, oneByOne),
  ]),
  reporters: ['default', `${JEST}/closing-reporter.mjs`],
  testSequencer: `${JEST}/sequencer.mjs`,
  maxWorkers: 2,
  // A whole stack is started in a beforeAll, which counts against this too.
  testTimeout: 60_000,
  watchman: false,
};
