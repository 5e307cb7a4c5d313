// Replaces the TypeScript files below FOLDER by JavaScript files of the same lines and columns, and the names of files in
// imports and package exports with them: `node strip-types.mjs FOLDER`. Node could do that at each start; the module
// that it needs for it takes 12 MB of memory in each process (docs/decisions/0013).

import { globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';

const SPECIFIER = /\b(from\s+|import\s+|import\s*\(\s*)(['"])(\.{1,2}\/[^'"\n]+)\.ts\2/g;

const folder = process.argv[2];
if (folder === undefined) throw new Error('usage: strip-types.mjs FOLDER');

for (const path of globSync('**/*.ts', { cwd: folder }).map((name) => join(folder, name))) {
  const code = stripTypeScriptTypes(readFileSync(path, 'utf8'));
  writeFileSync(path.replace(/\.ts$/, '.js'), nameJavaScript(code));
  rmSync(path);
}
for (const name of globSync('deploy/image/*.mjs', { cwd: folder })) {
  const path = join(folder, name);
  writeFileSync(path, nameJavaScript(readFileSync(path, 'utf8')));
}
for (const name of globSync('{packages,services}/*/package.json', { cwd: folder })) {
  const path = join(folder, name);
  const { exports, ...manifest } = JSON.parse(readFileSync(path, 'utf8'));
  const renamed = exports && JSON.parse(JSON.stringify(exports).replaceAll('.ts"', '.js"'));
  const content = { ...manifest, ...(renamed && { exports: renamed }) };
  writeFileSync(path, `${JSON.stringify(content, null, 2)}\n`);
}

function nameJavaScript(code) {
  return code.replaceAll(SPECIFIER, '$1$2$3.js$2');
}
