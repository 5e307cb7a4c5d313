import { cruiseImports, findUnreachedFiles, type ImportingFile } from './cruise.ts';
import { applyRules } from './file-rules.ts';
import { compare, demand, findFiles, readText } from './files.ts';
import { checkExamples } from './import-examples.ts';
import { listUrls, parseFile } from './source-file.ts';

const SOURCES = ['{packages,services,tools}/*/src/**/*.{ts,tsx,mjs}', 'tools/*/**/*.mjs'];
/** Tests, their support, and scripts. */
const TESTS = ['{test,scripts}/**/*.{ts,mjs}', '{packages,services,tools}/*/test/**/*.{ts,mjs}'];
const FOLDERS = ['packages', 'services', 'tools', 'test', 'bench', 'scripts'];
const SCOPE = '@carillon/';

/** Checks imports, the rules for files, and the picture of the imports. */
export async function checkImports(root: string): Promise<string[]> {
  const [cruise, examples] = await Promise.all([cruiseImports(root, FOLDERS), checkExamples(root)]);
  const tests = findFiles(root, ...TESTS);
  const sources = findFiles(root, ...SOURCES).filter((path) => !tests.includes(path));
  const problems: string[] = [];
  // A syntax tree is large, so none is kept.
  const files = [...sources, ...tests].map((path) => {
    const file = parseFile(path, readText(root, path));
    problems.push(...applyRules(file, tests.includes(path)));
    return { path, imports: file.imports, urls: listUrls(file) };
  });
  const { dependencies = {} } = JSON.parse(readText(root, 'package.json')) as Manifest;
  const unreached = findUnreachedFiles(files);
  return [
    ...demand(sources.length > 0 && cruise.files > sources.length, 'hardly any file was read'),
    ...cruise.violations,
    ...examples,
    ...problems,
    ...sources
      .filter((path) => unreached.includes(path))
      .map((path) => `no main.ts and no test leads to ${path}`),
    ...Object.keys(dependencies).map((name) => `package.json has the run-time dependency ${name}`),
    ...checkPicture(root, files.slice(0, sources.length)),
  ];
}

interface Manifest {
  dependencies?: Record<string, string>;
}

/**
 * Checks that each package.json declares exactly the imports of its code, and that the picture in docs/structure.md shows
 * them, but for those that follow from two arrows.
 */
function checkPicture(root: string, sources: readonly ImportingFile[]): string[] {
  const text = readText(root, 'docs/structure.md');
  const picture = /```mermaid\n(flowchart TD[\s\S]*?)```/.exec(text)?.[1] ?? '';
  const boxes = picture.matchAll(/^ {4}(\w+)(?:\[[\w-]+\])?$/gm);
  const declared = readDeclared(root);
  const declaredArrows = [...declared].flatMap(([from, to]) => arrows([from], [...to]));
  const imported = sources.flatMap(({ path, imports }) =>
    arrows([folderOf(path)], withoutScope(imports)),
  );
  const needed = [...declared].flatMap(([from, all]) => {
    const beyond = new Set([...all].flatMap((one) => [...reachedFrom(declared, one)]));
    return arrows(
      [from],
      [...all].filter((one) => !beyond.has(one)),
    );
  });
  return [
    ...compare('package.json of', declaredArrows.sort(), [...new Set(imported)].sort()),
    ...compare('docs/structure.md', [...new Set(readArrows(picture))].sort(), needed.sort()),
    ...compare(
      'boxes of docs/structure.md',
      [...boxes].map(([, id = '']) => id.replaceAll('_', '-')).sort(),
      [...declared.keys()].sort(),
    ),
  ];
}

/** Reads the workspace imports that each package.json declares, by short name. */
function readDeclared(root: string): Map<string, Set<string>> {
  const manifests = findFiles(root, '{packages,services,tools}/*/package.json');
  return new Map(
    manifests.map((path) => {
      const { dependencies = {} } = JSON.parse(readText(root, path)) as Manifest;
      return [folderOf(path), new Set(withoutScope(Object.keys(dependencies)))];
    }),
  );
}

/** `a & b --> c & d` is four arrows. Mermaid's ids have `_` where the names have `-`. */
function readArrows(picture: string): string[] {
  const split = (text = '') => text.split('&').map((id) => id.trim().replaceAll('_', '-'));
  const lines = picture.matchAll(/^\s*([\w &]+) --> ([\w &]+)$/gm);
  return [...lines].flatMap(([, from, to]) => arrows(split(from), split(to)));
}

function arrows(from: readonly string[], to: readonly string[]): string[] {
  return from.flatMap((one) => to.map((other) => `${one} → ${other}`));
}

function reachedFrom(imports: ReadonlyMap<string, Set<string>>, from: string): Set<string> {
  const direct = imports.get(from) ?? new Set();
  return new Set([...direct].flatMap((one) => [one, ...reachedFrom(imports, one)]));
}

function withoutScope(names: readonly string[]): string[] {
  const own = names.filter((name) => name.startsWith(SCOPE));
  return own.map((name) => name.slice(SCOPE.length).split('/')[0] ?? '');
}

function folderOf(path: string): string {
  return path.split('/')[1] ?? '';
}
