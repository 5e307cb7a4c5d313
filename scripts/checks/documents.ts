import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createFileList } from '../../test/support/faults/fault-table.ts';
import { compare, demand, findFiles, readText } from './files.ts';

const DOCUMENTS = [
  '*.md',
  'docs/**/*.md',
  '.github/*.md',
  '{packages,services,tools}/*/README.md',
  'services/dashboard/web/README.md',
  'bench/README.md',
];
/** Code spans that begin with a folder of the repository; `*` and `<…>` match any name. */
const PATH = /`((?:services|packages|tools|test|bench|docs|scripts|\.github|\.ci)\/[\w./@-]+)`/g;
const LINK = /\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)/g;
const COMMAND = /(?<!\w)npm run (?:-s )?([\w:-]+)/g;
const MAX_README_LINES = 15;
const MAX_WORDS = 40;
const GUARANTEES = Array.from({ length: 17 }, (_, index) => `G${index + 1}`);

/** Checks that documents name what exists, and that their tables of tests are complete. */
export function checkDocuments(root: string): string[] {
  const documents = findFiles(root, ...DOCUMENTS);
  const { scripts } = JSON.parse(readText(root, 'package.json')) as { scripts: object };
  return [
    ...demand(documents.length > 10, 'there are hardly any documents'),
    ...documents.flatMap((path) => checkNames(root, path, scripts)),
    ...documents
      .filter((path) => path.endsWith('/README.md') && !path.startsWith('docs/'))
      .flatMap((path) => {
        const { length } = readText(root, path).trimEnd().split('\n');
        return demand(length <= MAX_README_LINES, `${path} has ${length} lines`);
      }),
    ...checkGlossary(readText(root, 'docs/change/glossary.md')),
    ...checkSecurityTests(root),
    ...checkGuarantees(root),
  ];
}

/** Checks the paths, the links and the commands to copy. */
function checkNames(root: string, document: string, scripts: object): string[] {
  const text = readText(root, document);
  const prose = text.replaceAll(/^```[\s\S]*?^```/gm, '').replaceAll(/`[^`\n]*`/g, '');
  const blocks = [...text.matchAll(/^ *```sh\n([\s\S]*?)^ *```/gm)].join('\n');
  const list = (source: string, pattern: RegExp) =>
    [...source.matchAll(pattern)].map(([, name = '']) => name);
  return [
    ...list(text, PATH).filter((path) => !existsSync(join(root, path))),
    ...list(prose, LINK).filter((path) => !existsSync(join(root, dirname(document), path))),
    ...list(blocks, COMMAND).filter((name) => !(name in scripts)),
  ].map((name) => `${document} names ${name}, which does not exist`);
}

/** Checks that the glossary defines each of its words once, and not too many. */
function checkGlossary(text: string): string[] {
  const words = [...text.matchAll(/^\| ([^|]+) \|/gm)]
    .flatMap(([, cell = '']) => cell.split(', '))
    .filter((word) => word !== 'word');
  const { length } = words;
  return [
    ...demand(length > 20 && length <= MAX_WORDS, `the glossary has ${length} words`),
    ...compare('the glossary', words, [...new Set(words)]),
  ];
}

/** Checks that each section of security.md has statements, and each statement a test or the reason why there is none. */
function checkSecurityTests(root: string): string[] {
  const page = 'docs/change/security-tests.md';
  const headingsOf = (text: string) =>
    [...text.matchAll(/^###? (.+)$/gm)].map(([, heading = '']) => heading);
  const [, statements = ''] = readText(root, page).split('\n## Statements of security.md\n');
  const sections = statements.split(/^### /m).slice(1);
  return [
    ...compare(page, headingsOf(statements), headingsOf(readText(root, 'docs/run/security.md'))),
    ...sections.flatMap((section) => {
      const [title = '', ...items] = section.split(/^- /m);
      const wrong = items
        .map((item) => item.replaceAll(/\s+/g, ' ').trim())
        .filter(
          (item) => !/: (?:`(?:\S+\.test|scripts\/checks\/\S+)\.ts`|Not tested\. \S)/.test(item),
        );
      return [
        ...demand(items.length > 0, `${page}: no statement in ${title.trim()}`),
        ...wrong.map((item) => `${page}: neither a test nor a reason: ${item}`),
      ];
    }),
  ];
}

/**
 * Checks the tables of docs/guarantees.md: each guarantee has a test that `npm test` runs, each fault tests or a reason, and
 * tests of other tiers have their mark.
 */
function checkGuarantees(root: string): string[] {
  const page = readText(root, 'docs/guarantees.md');
  const listFiles = createFileList(root);
  const guarantees = [...page.matchAll(/^\| (G\d+) \| .* \| (.*) \|$/gm)];
  const rows = [...guarantees, ...page.matchAll(/^\| (\d+) \| .* \| (.*) \|$/gm)];
  return [
    ...compare(
      'the guarantees',
      guarantees.map(([, name = '']) => name),
      GUARANTEES,
    ),
    ...guarantees
      .filter(([, , tests = '']) => !/test\.ts`(?! \*)/.test(tests))
      .map(([, name]) => `npm test has no test of ${name}`),
    ...rows.flatMap(([, name, tests = '']) => {
      const files = [...tests.matchAll(/`([^`]+\.ts)`/g)].map(([, file = '']) => file);
      const isRight = files.length === 0 || tests === listFiles(files);
      return demand(
        isRight && tests !== '',
        `docs/guarantees.md, ${name}: not ${listFiles(files)}`,
      );
    }),
  ];
}
