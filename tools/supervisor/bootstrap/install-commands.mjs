// The commands that install what `npm start` can't install by itself.

import { findProgram } from './paths.mjs';

const MANAGERS = ['brew', 'apt-get', 'dnf', 'pacman', 'zypper'];
/** Command of each package manager, by what is missing. */
const COMMANDS = {
  redis: {
    brew: 'brew install redis',
    'apt-get': 'sudo apt-get install redis-server',
    dnf: 'sudo dnf install valkey',
    pacman: 'sudo pacman -S valkey',
    zypper: 'sudo zypper install redis',
  },
  npm: {
    brew: 'brew install node',
    'apt-get': 'sudo apt-get install npm',
    dnf: 'sudo dnf install npm',
    pacman: 'sudo pacman -S npm',
    zypper: 'sudo zypper install npm-default',
  },
  libcurl: {
    'apt-get': 'sudo apt-get install libcurl4',
    dnf: 'sudo dnf install libcurl',
    pacman: 'sudo pacman -S curl',
    zypper: 'sudo zypper install libcurl4',
  },
  mongodb: { brew: 'brew tap mongodb/brew && brew install mongodb-community' },
};
const MONGODB_BY_DOCKER =
  'docker run -d -p 127.0.0.1:27017:27017 mongo:8, then MONGODB_URI=mongodb://127.0.0.1:27017/carillon npm start';

/** Platforms that Node 24 has a package for. */
const PLATFORMS = ['linux x64', 'linux arm64', 'darwin x64', 'darwin arm64'];

/**
 * @typedef {object} Machine
 * @property {string} platform as in `process.platform`
 * @property {string} arch as in `process.arch`
 * @property {boolean} hasGlibc Linux with the C library that Node and MongoDB need
 * @property {string | undefined} manager the package manager
 * @property {readonly ('redis' | 'npm' | 'libcurl' | 'mongodb')[]} missing what this process can't install
 */

/**
 * Lists what to do before `npm start` can work, one line for each part.
 *
 * @param {Machine} machine
 * @returns {string[]}
 */
export function listRemedies({ platform, arch, hasGlibc, manager, missing }) {
  if (platform === 'win32')
    return ['Windows: install WSL (wsl --install), then clone Carillon and start it there.'];
  const containers = 'run Carillon in containers: docs/run/deploy-with-compose.md';
  if (!PLATFORMS.includes(`${platform} ${arch}`))
    return [`Node 24 has no package for ${platform} ${arch}: ${containers}.`];
  if (platform === 'linux' && !hasGlibc)
    return [`Node and MongoDB need glibc, which this Linux does not have: ${containers}.`];
  const suggest = (what) => suggestCommand(what, manager);
  const lines = {
    npm: () => `npm: ${suggest('npm')}`,
    redis: () =>
      `Redis: ${suggest('redis')} (or use a running server: REDIS_URL=redis://host:6379 npm start)`,
    libcurl: () => `libcurl, for MongoDB: ${suggest('libcurl')}`,
    mongodb: () =>
      `MongoDB, which can't be downloaded here: ${COMMANDS.mongodb[manager] ?? MONGODB_BY_DOCKER}`,
  };
  return missing.map((what) => lines[what]());
}

/** Returns the command that installs a part. @param manager a package manager's program */
export function suggestCommand(what, manager) {
  return COMMANDS[what][manager] ?? 'from the package manager of this system';
}

/** Finds the package manager of this machine. */
export function findManager() {
  return MANAGERS.find((name) => findProgram(name) !== undefined);
}
