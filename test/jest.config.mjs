import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
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

const ONE_BY_ONE = { runner: `${JEST}/serial-runner.mjs` };

/** What the main process starts for files that call one of these functions. Others may use the mongod that files share. */
const SERVERS = [
  [/\buseShared(Stack|Providers)\(/, `${JEST}/lend-calm.mjs`],
  [/\buseKillableStack\(/, `${JEST}/lend-killable.mjs`],
  [/(?:)/, `${JEST}/share-mongod.mjs`],
];

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

/** Files of a tier, with the settings that they need; Jest knows all parts of a tier by one name. */
function projectsOf(displayName, settings, files) {
  const setUpOf = (path) => {
    const text = readFileSync(`${ROOT}${path}`, 'utf8');
    return SERVERS.find(([call]) => call.test(text))[1];
  };
  return Object.entries(Object.groupBy(files, setUpOf)).map(([globalSetup, paths]) => ({
    ...{ ...common, ...settings, displayName, globalSetup },
    testMatch: paths.map((path) => `<rootDir>/${path}`),
  }));
}

export default {
  rootDir: ROOT,
  projects: readTiers(ROOT).flatMap(({ name, sideBySide, oneByOne }) => [
    ...projectsOf(name, {}, sideBySide),
    ...projectsOf(name, ONE_BY_ONE, oneByOne),
  ]),
  reporters: ['default', `${JEST}/closing-reporter.mjs`],
  maxWorkers: 3,
  // Jest keeps what the modules of finished files hold.
  workerIdleMemoryLimit: '1GB',
  // A guard against hanging. A beforeAll may start a whole stack, or wait for one.
  testTimeout: 300_000,
  watchman: false,
};
