import { matchesGlob, posix } from 'node:path';
import type { SourceFile } from './source-file.ts';

/** Where running code begins. */
const ENTRIES = ['services/*/src/main.ts', 'services/*/bootstrap.mjs', '**/*.test.ts'];

/** The paths of the files that no entry leads to, by import or by URL. */
export function unreached(files: readonly SourceFile[]): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const reached = new Set<string>();
  const open = files.filter(({ path }) => ENTRIES.some((entry) => matchesGlob(path, entry)));
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    if (reached.has(file.path)) continue;
    reached.add(file.path);
    const { path } = file;
    const next = [...file.imports, ...file.urls].map((name) => byPath.get(resolve(path, name)));
    open.push(...next.filter((found) => found !== undefined));
  }
  return [...byPath.keys()].filter((path) => !reached.has(path));
}

/** `@carillon/core/ids` is `packages/core/src/ids.ts`, as each package's `exports` say. */
function resolve(from: string, name: string): string {
  if (name.startsWith('.')) return posix.join(from, '..', name);
  const [, pack, file] = name.match(/^@carillon\/([^/]+)\/(.+)$/) ?? [];
  return pack === undefined ? name : `packages/${pack}/src/${file}.ts`;
}
