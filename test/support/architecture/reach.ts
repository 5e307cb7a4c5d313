import { matchesGlob, posix } from 'node:path';
import type { SourceFile } from './source-file.ts';

/** Entry points of running code. */
const ENTRY_POINTS = [
  'services/*/src/main.ts',
  'tools/*/src/main.ts',
  'tools/*/bootstrap.mjs',
  '**/*.test.ts',
];

/** Finds the files that no entry point leads to, by import or by URL. */
export function findUnreachedFiles(files: readonly SourceFile[]): string[] {
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
