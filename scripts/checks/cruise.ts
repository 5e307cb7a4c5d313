import { execFile } from 'node:child_process';
import { matchesGlob, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const CRUISER = 'dependency-cruiser/bin/dependency-cruiser.mjs';
/** Entry points of running code. */
const ENTRY_POINTS = [
  'services/*/src/main.ts',
  'tools/*/src/main.ts',
  'tools/*/bootstrap.mjs',
  '**/*.test.ts',
];

interface CruiseResult {
  modules: unknown[];
  summary: { violations: { rule: { name: string }; from: string; to: string }[] };
}

/**
 * Applies the rules of .dependency-cruiser.mjs to folders.
 *
 * @returns the number of files that were read, and the violations: `rule: from → to`
 */
export async function cruiseImports(root: string, folders: readonly string[]) {
  const program = fileURLToPath(new URL(`../../node_modules/${CRUISER}`, import.meta.url));
  const args = [program, ...folders, '--config', '.dependency-cruiser.mjs'];
  const { modules, summary } = JSON.parse(
    await runNode([...args, '--output-type', 'json'], root),
  ) as CruiseResult;
  return {
    files: modules.length,
    violations: summary.violations.map(({ rule, from, to }) => `${rule.name}: ${from} → ${to}`),
  };
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

/** A file with the modules that it names, and the files that it loads by URL. */
export interface ImportingFile {
  path: string;
  imports: readonly string[];
  urls: readonly string[];
}

/** Finds the files that no entry point leads to, by import or by URL. */
export function findUnreachedFiles(files: readonly ImportingFile[]): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const reached = new Set<string>();
  const open = files.filter(({ path }) => ENTRY_POINTS.some((entry) => matchesGlob(path, entry)));
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    if (reached.has(file.path)) continue;
    reached.add(file.path);
    const { path } = file;
    const next = [...file.imports, ...file.urls].map((name) => byPath.get(resolve(path, name)));
    open.push(...next.filter((found) => found !== undefined));
  }
  return [...byPath.keys()].filter((path) => !reached.has(path));
}

/** Resolves `@carillon/core/ids` to `packages/core/src/ids.ts`, as the `exports` of each package do. */
function resolve(from: string, name: string): string {
  if (name.startsWith('.')) return posix.join(from, '..', name);
  const [, pack, file] = name.match(/^@carillon\/([^/]+)\/(.+)$/) ?? [];
  return pack === undefined ? name : `packages/${pack}/src/${file}.ts`;
}
