import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const CRUISER = join(ROOT, 'node_modules/dependency-cruiser/bin/dependency-cruiser.mjs');
const CONFIG = '.dependency-cruiser.mjs';
const FOLDERS = ['packages', 'services', 'tools', 'test', 'bench'];
const LIBRARIES = ['zod', 'lru-cache', 'express', 'mongodb', 'ioredis', 'mqtt', 'mqtt-packet'];

interface CruiseResult {
  modules: unknown[];
  summary: { violations: { rule: { name: string }; from: string; to: string }[] };
}

/** Result of dependency-cruiser's rules. */
export interface ImportReport {
  /** Number of files that were read. */
  files: number;
  /** `rule: from → to` */
  violations: string[];
}

/** Checks the import rules of .dependency-cruiser.mjs on the repository, or on a workspace in `root`. */
export async function checkImports(root = ROOT, folders = FOLDERS): Promise<ImportReport> {
  const args = [CRUISER, ...folders, '--config', CONFIG, '--output-type', 'json'];
  const { modules, summary } = JSON.parse(await runNode(args, root)) as CruiseResult;
  return {
    files: modules.length,
    violations: summary.violations.map(({ rule, from, to }) => `${rule.name}: ${from} → ${to}`),
  };
}

/** Checks the import rules on a temporary workspace that contains only these files. */
export async function checkImportsOf(files: Record<string, string>): Promise<ImportReport> {
  const root = mkdtempSync(join(tmpdir(), 'carillon-imports-'));
  try {
    cpSync(join(ROOT, CONFIG), join(root, CONFIG));
    for (const [path, text] of Object.entries({ ...WORKSPACE, ...files })) write(root, path, text);
    mkdirSync(join(root, 'node_modules/@carillon'));
    for (const name of ['core', 'store', 'reports', 'queue', 'new'])
      symlinkSync(`../../packages/${name}`, join(root, 'node_modules/@carillon', name));
    symlinkSync('../../services/scheduler', join(root, 'node_modules/@carillon/scheduler'));
    return await checkImports(root, ['packages', 'services']);
  } finally {
    rmSync(root, { recursive: true });
  }
}

/** A workspace without imports: every library is installed, and declared where its rule allows it. */
const WORKSPACE: Record<string, string> = {
  'package.json': '{"type":"module"}',
  ...Object.fromEntries(
    LIBRARIES.flatMap((name) => [
      [`node_modules/${name}/package.json`, JSON.stringify({ name, main: 'index.js' })],
      [`node_modules/${name}/index.js`, ''],
    ]),
  ),
  ...manifest('packages/core', ['zod', 'lru-cache']),
  ...manifest('packages/store', ['mongodb', 'ioredis']),
  ...manifest('packages/reports', []),
  ...manifest('packages/queue', []),
  ...manifest('packages/new', []),
  ...manifest('services/api', ['express', 'mongodb']),
  ...manifest('services/scheduler', []),
  ...manifest('services/device-gateway', ['mqtt']),
  'packages/core/src/ids.ts': 'export const id = 1;',
  'packages/store/src/db.ts': 'export const db = 1;',
  'packages/reports/src/reports.ts': 'export const reports = 1;',
  'packages/queue/src/names.ts': 'export const name = 1;',
  'packages/new/src/thing.ts': 'export const thing = 1;',
  'services/scheduler/src/due.ts': 'export const due = 1;',
};

function manifest(folder: string, libraries: readonly string[]): Record<string, string> {
  const name = `@carillon/${folder.split('/')[1]}`;
  const dependencies = Object.fromEntries(libraries.map((library) => [library, '1.0.0']));
  const text = JSON.stringify({ name, exports: { './*': './src/*.ts' }, dependencies });
  return { [`${folder}/package.json`]: text };
}

function write(root: string, path: string, text: string): void {
  mkdirSync(join(root, dirname(path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

/** Runs a script and returns its standard output. dependency-cruiser's exit code is the number of errors. */
function runNode(args: readonly string[], cwd: string): Promise<string> {
  const options = { cwd, maxBuffer: 64 * 1_048_576 };
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, options, (error, stdout, stderr) => {
      if (stdout.startsWith('{')) resolve(stdout);
      else reject(new Error(`dependency-cruiser failed: ${stderr}`, { cause: error }));
    });
  });
}
