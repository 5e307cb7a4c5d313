// Prints the size of the code: lines, files, lengths of files and functions, interfaces of resources, import circles.
//
//   node_modules/.bin/node scripts/measure-code.mjs [folder of another checkout]
//
// A function counts by its own lines, without those of the functions inside it. Arrow functions of one line are left out.

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describeFile } from '../test/support/architecture/source-file.ts';

const ROOT = process.argv[2] ?? fileURLToPath(new URL('..', import.meta.url));
const GROUPS = {
  'packages, services, tools': /^(?:packages|services|tools)\/[^/]+\/(?:src|bootstrap|web\/src)\//,
  'of these without the dashboard':
    /^(?:packages|tools|services(?!\/dashboard\/))\/[^/]+\/(?:src|bootstrap)\//,
  'tests and their support': /^(?:test|(?:packages|services|tools)\/[^/]+(?:\/web)?\/test)\//,
  benchmarks: /^bench\//,
};
const CODE = /\.(?:ts|tsx|mts|mjs)$/;
const RESOURCES = /^(?:export )?(?:interface|type) (\w*(?:Needs|Deps))\b/gm;

const paths = execFileSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8' })
  .split('\n')
  .filter((path) => CODE.test(path) && existsSync(join(ROOT, path)));

for (const [group, pattern] of Object.entries(GROUPS)) {
  const files = paths.filter((path) => pattern.test(path)).map(read);
  const lengths = files.map(({ lines }) => lines);
  const functions = files.flatMap(({ path, functions: found }) =>
    found.map((one) => ({ ...one, path })),
  );
  const own = functions.map(({ ownLines }) => ownLines);
  const sum = lengths.reduce((total, lines) => total + lines, 0);
  print(`${group}: ${sum} lines in ${files.length} files`);
  print(`  files      ${describe(lengths)}`);
  print(`  functions  ${describe(own)}, ${own.length} in all, above 60: ${above(own, 60)}`);
  const longest = functions.toSorted((a, b) => b.ownLines - a.ownLines).slice(0, 3);
  for (const { path, line, name, ownLines } of longest) {
    print(`             ${ownLines} ${path}:${line} ${name}`);
  }
}

const resources = paths
  .filter((path) => GROUPS['packages, services, tools'].test(path))
  .flatMap((path) => [...textOf(path).matchAll(RESOURCES)].map(([, name]) => `${name} (${path})`));
print(`types named Deps or Needs: ${[resources.length, ...resources].join('\n  ')}`);

const circles = findCircles(
  new Map(paths.map((path) => [path, read(path).imports.map((name) => resolve(path, name))])),
);
print(
  `import circles: ${[circles.length, ...circles.map((files) => files.join(', '))].join('\n  ')}`,
);

/** Finds the groups of files that import each other (strongly connected components, by Tarjan's algorithm). */
function findCircles(graph) {
  const found = [];
  const stack = [];
  const numbers = new Map();
  const lows = new Map();
  function visit(path) {
    numbers.set(path, numbers.size);
    lows.set(path, numbers.get(path));
    stack.push(path);
    for (const next of graph.get(path) ?? []) {
      if (!graph.has(next)) continue;
      if (!numbers.has(next)) visit(next);
      if (stack.includes(next)) lows.set(path, Math.min(lows.get(path), lows.get(next)));
    }
    if (lows.get(path) !== numbers.get(path)) return;
    const group = stack.splice(stack.indexOf(path));
    if (group.length > 1) found.push(group.sort());
  }
  for (const path of graph.keys()) if (!numbers.has(path)) visit(path);
  return found;
}

/** Returns the path of an imported module of the repository; other modules keep their name. */
function resolve(path, name) {
  const own = /^@carillon\/([^/]+)\/(.+)$/.exec(name);
  if (own !== null) return `packages/${own[1]}/src/${own[2]}.ts`;
  return name.startsWith('.') ? posix.join(posix.dirname(path), name) : name;
}

function read(path) {
  return describeFile(path, textOf(path));
}

function textOf(path) {
  return readFileSync(join(ROOT, path), 'utf8');
}

function describe(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  return `median ${at(0.5)}, 90 % ${at(0.9)}, max ${sorted.at(-1)}`;
}

function above(values, limit) {
  return values.filter((value) => value > limit).length;
}

function print(line) {
  process.stdout.write(`${line}\n`);
}
