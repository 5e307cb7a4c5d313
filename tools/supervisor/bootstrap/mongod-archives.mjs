// Names and SHA-256 digests of the vendor's archives that this project downloads. (The digests are
// those that NixOS/nixpkgs pins for the same files in its mongodb-ce 8.0.11.)

/** The version to download. A change of it needs new digests below. */
export const MONGODB_VERSION = '8.0.11';

const KNOWN_ARCHIVES = {
  'linux-x64': {
    path: 'linux/mongodb-linux-x86_64-ubuntu2204',
    sha256: '5c4af1b28bd9c8c475526c029719f9066d3c86860702b0ad9fc4d2bfff1e0d8a',
  },
  'linux-arm64': {
    path: 'linux/mongodb-linux-aarch64-ubuntu2204',
    sha256: 'a75781a1b76727fb8f64749c585b3700e07bfc1267fcc650f3e569387a276360',
  },
  'darwin-x64': {
    path: 'osx/mongodb-macos-x86_64',
    sha256: '44babe685262c52b771208a7a602075a7478086934297e5c982dd0adb5b78c9f',
  },
  'darwin-arm64': {
    path: 'osx/mongodb-macos-arm64',
    sha256: '90dcc1c8f1178b94f7fafafab7f109b8a20311f1b26ebb1b06a27cbda115e6d6',
  },
};

/** The oldest glibc that the Linux builds above run on (Ubuntu 22.04, Debian 12). */
const MIN_GLIBC = [2, 35];

/**
 * Finds the known archive for a machine.
 *
 * @param {{ platform: string, arch: string, glibc: string | undefined }} machine
 * @returns {{ path: string, sha256: string } | undefined} `path` is relative to the vendor's URL
 */
export function findKnownArchive({ platform, arch, glibc }) {
  if (platform === 'linux' && !isNewEnough(glibc)) return undefined;
  const known = KNOWN_ARCHIVES[`${platform}-${arch}`];
  return known && { path: `${known.path}-${MONGODB_VERSION}.tgz`, sha256: known.sha256 };
}

function isNewEnough(glibc) {
  const [major = 0, minor = 0] = (glibc ?? '').split('.').map(Number);
  return major > MIN_GLIBC[0] || (major === MIN_GLIBC[0] && minor >= MIN_GLIBC[1]);
}
