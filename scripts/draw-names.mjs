// Prints exported names drawn at random, to judge whether their meaning follows from the field's terms:
//
//   node scripts/draw-names.mjs SEED [COUNT]
//
// The same seed draws the same names from the same sources.

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const EXPORT =
  /^export (?:declare )?(?:async )?(?:abstract )?(?:function\*?|const|let|class|interface|type) ([\w$]+)/gm;

const [seed, count = '10'] = process.argv.slice(2);
if (seed === undefined || !/^[1-9]\d*$/.test(count)) {
  process.stderr.write('Usage: node scripts/draw-names.mjs SEED [COUNT]\n');
  process.exit(2);
}

const root = fileURLToPath(new URL('..', import.meta.url));
const listed = execFileSync('git', ['ls-files', 'packages', 'services', 'tools'], {
  cwd: root,
  encoding: 'utf8',
});
const sources = listed.split('\n').filter((path) => /\/src\/.*\.tsx?$/.test(path));
const names = sources.flatMap((path) => {
  const source = readFileSync(`${root}/${path}`, 'utf8');
  return [...source.matchAll(EXPORT)].map(([, name]) => ({ name, path }));
});

/** Orders names by a hash, so that a name keeps its rank when others come and go. */
function rank({ name, path }) {
  return createHash('sha256').update(`${seed}:${path}:${name}`).digest('hex');
}

const drawn = names
  .map((entry) => ({ ...entry, rank: rank(entry) }))
  .sort((a, b) => (a.rank < b.rank ? -1 : 1))
  .slice(0, Number(count));
for (const { name, path } of drawn) process.stdout.write(`${name.padEnd(32)} ${path}\n`);
process.stdout.write(`${drawn.length} of ${names.length} exported names, seed ${seed}\n`);
