import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { cruiseImports, findUnreachedFiles } from './cruise.ts';
import { FILE_RULES } from './file-rules.ts';
import { compare, demand } from './files.ts';
import { RETIRED_NAMES } from './retired-names.ts';
import { listUrls, parseFile } from './source-file.ts';

const CORE = 'packages/core imports only its allowed packages';
const STORE = 'packages/store imports only its allowed packages';
const ACCEPT = 'packages/accept imports only its allowed packages';
const LISTED = 'a package is listed before it imports another or is imported';
const SERVICES = 'services import listed packages and no service';
const OWN_FOLDER = 'relative imports stay in their own package';
const DECLARED = 'imports are declared in the own package.json';
const PURE = 'packages/core imports few libraries';
const CIRCLE = 'no import circle';
const REPORTS = 'the engine imports no reports';
const PAGES = 'the pages import nothing of the server but types';
const BUILTIN = 'built-in modules are imported with node:, types by import declarations';
const PROCESS = 'only the edges touch process';
const DATABASE = 'only the packages of MongoDB take the database from a store';
const RETIRED = 'no file name or exported name contains a retired word';
const HTTP = 'what keeps running takes node:http from the runtime';

type Example = readonly [rule: string, path: string, source: string];

/** Imports that .dependency-cruiser.mjs forbids. */
const FORBIDDEN_IMPORTS: readonly Example[] = [
  [CORE, 'packages/core/src/a.ts', "import '@carillon/store/db';"],
  [STORE, 'packages/store/src/a.ts', "export * from '@carillon/queue/names';"],
  [LISTED, 'packages/new/src/a.ts', "import '@carillon/core/ids';"],
  [SERVICES, 'services/api/src/a.ts', "await import('@carillon/scheduler/due');"],
  [SERVICES, 'services/api/src/b.ts', "import '@carillon/new/thing';"],
  [OWN_FOLDER, 'services/api/src/c.ts', "import '../../scheduler/src/due.ts';"],
  [OWN_FOLDER, 'services/api/src/d.ts', "import '../../../packages/core/src/ids.ts';"],
  [DECLARED, 'services/api/src/e.ts', "import { z } from 'zod';"],
  [DECLARED, 'services/api/src/f.ts', "import 'not-installed';"],
  [PURE, 'packages/core/src/g.ts', "import 'lru-cache';"],
  ['express stays in its room', 'services/api/src/h.ts', "import type { R } from 'express';"],
  ['mongodb stays in its room', 'services/api/src/i.ts', "import { Db } from 'mongodb';"],
  ['ioredis stays in its room', 'packages/store/src/j.ts', "import { Redis } from 'ioredis';"],
  ['mqtt stays in its room', 'services/device-gateway/src/k.ts', "const m = require('mqtt');"],
  [REPORTS, 'services/scheduler/src/a.ts', "import '@carillon/reports/reports';"],
  [REPORTS, 'services/delivery-worker/src/a.ts', "import '@carillon/reports/reports';"],
  [REPORTS, 'services/device-gateway/src/a.ts', "import '@carillon/reports/reports';"],
  [STORE, 'packages/store/src/b.ts', "import '@carillon/reports/reports';"],
  [ACCEPT, 'packages/accept/src/a.ts', "import '@carillon/reports/reports';"],
  [PAGES, 'services/dashboard/web/src/a.ts', "import { a } from '../../../api/src/n.ts'; a();"],
  [CIRCLE, 'services/api/src/l.ts', "import type { M } from './m.ts'; export type L = M;"],
];
/** Imports that it allows. */
const ALLOWED_IMPORTS: Readonly<Record<string, string>> = {
  // It closes the circle of l.ts, which is reported once.
  'services/api/src/m.ts': "import type { L } from './l.ts'; export type M = L;",
  'services/api/src/n.ts': "import '@carillon/store/db';",
  'services/api/src/o/p.ts': "import '../n.ts';",
  'services/api/src/q.ts': "// import 'zod';\nconst text = `import 'zod'`;",
  'services/dashboard/web/src/b.ts': "import type { N } from '../../../api/src/n.ts';",
  'services/api/src/push/routes.ts': "import { Router } from 'express';",
};

const FORBIDDEN_FILES: readonly Example[] = [
  [HTTP, 'services/api/src/http/a.ts', "import { createServer } from 'node:http';"],
  [HTTP, 'packages/runtime/src/a.ts', "import { get, type Server } from 'node:http';"],
  [BUILTIN, 'services/api/src/a.ts', "import fs from 'fs';"],
  [BUILTIN, 'services/api/src/a.ts', "type Db = import('mongodb').Db;"],
  [PROCESS, 'services/api/src/a.ts', 'const port = process.env.PORT;'],
  [PROCESS, 'services/api/src/a.ts', 'const { argv } = process;'],
  [PROCESS, 'services/cli/src/a.ts', "import { exit } from 'node:process';"],
  [DATABASE, 'services/api/src/a.ts', "store.db.collection('pushes');"],
  [DATABASE, 'packages/accept/src/a.ts', 'const { db } = store;'],
  [DATABASE, 'packages/accept/src/a.ts', 'const a = ({ db: other }) => other;'],
  ['no index file only re-exports', 'packages/core/src/index.ts', "export * from './ids.ts';"],
  [RETIRED, 'services/api/src/say-goodbye-now.ts', ''],
  [RETIRED, 'services/api/src/a.ts', 'export const REPLY_PATIENCE_MS = 1;'],
  [RETIRED, 'services/api/src/a.ts', 'export function carryOut() {}'],
  [RETIRED, 'services/api/src/a.ts', 'export interface PendingStranger {}'],
  [RETIRED, 'services/api/src/a.ts', "export type { A as Verdict } from './b.ts';"],
];
const ALLOWED_FILES: readonly Example[] = [
  [
    BUILTIN,
    'services/api/src/a.ts',
    "import fs from 'node:fs'; import type { Db } from 'mongodb';",
  ],
  [HTTP, 'services/api/src/a.ts', "import type { Server } from 'node:http';"],
  [HTTP, 'services/sandbox/src/a.ts', "import { createServer } from 'node:http';"],
  [DATABASE, 'packages/reports/src/a.ts', 'const { db } = store;'],
  [PROCESS, 'services/api/src/main.ts', 'process.exit(1);'],
  [PROCESS, 'services/api/src/a.ts', 'queue.process(); const process = 1;'],
  ['no index file only re-exports', 'packages/core/src/index.ts', 'export const a = 1;'],
  [RETIRED, 'services/api/src/namespace.ts', 'const patience = 1; export const pacemaker = 1;'],
];

const LIBRARIES = ['zod', 'lru-cache', 'express', 'mongodb', 'ioredis', 'mqtt', 'mqtt-packet'];
const PACKAGES = {
  'packages/core': ['zod', 'lru-cache'],
  'packages/store': ['mongodb', 'ioredis'],
  ...{ 'packages/reports': [], 'packages/queue': [], 'packages/new': [] },
  'services/api': ['express', 'mongodb'],
  'services/scheduler': [],
  'services/device-gateway': ['mqtt'],
};
/** A workspace without imports: every library is installed, and declared where its rule allows it. */
const WORKSPACE: Readonly<Record<string, string>> = {
  'package.json': '{"type":"module"}',
  ...Object.fromEntries(
    LIBRARIES.flatMap((name) => [
      [`node_modules/${name}/package.json`, JSON.stringify({ name, main: 'index.js' })],
      [`node_modules/${name}/index.js`, ''],
    ]),
  ),
  ...Object.fromEntries(
    Object.entries(PACKAGES).map(([folder, libraries]) => {
      const name = `@carillon/${folder.split('/')[1]}`;
      const dependencies = Object.fromEntries(libraries.map((library) => [library, '1.0.0']));
      const manifest = { name, exports: { './*': './src/*.ts' }, dependencies };
      return [`${folder}/package.json`, JSON.stringify(manifest)];
    }),
  ),
  'packages/core/src/ids.ts': 'export const id = 1;',
  'packages/store/src/db.ts': 'export const db = 1;',
  'packages/reports/src/reports.ts': 'export const reports = 1;',
  'packages/queue/src/names.ts': 'export const name = 1;',
  'packages/new/src/thing.ts': 'export const thing = 1;',
  'services/scheduler/src/due.ts': 'export const due = 1;',
};

/** Checks that the rules find what they forbid, in examples, and nothing else: a rule that finds nothing looks kept. */
export async function checkExamples(root: string): Promise<string[]> {
  const found = await cruiseExamples(root);
  return [
    ...FORBIDDEN_IMPORTS.flatMap(([rule, path, source]) =>
      demand(
        found.some((violation) => violation.includes(`${rule}: ${path} → `)),
        `"${rule}" does not find ${source}`,
      ),
    ),
    ...Object.entries(ALLOWED_IMPORTS).flatMap(([path, source]) =>
      demand(!found.some((one) => one.includes(`${path} →`)), `the rules refuse ${source}`),
    ),
    ...FORBIDDEN_FILES.flatMap((example) =>
      demand(applyRule(...example).length > 0, `"${example[0]}" does not find ${example[2]}`),
    ),
    ...ALLOWED_FILES.flatMap((example) =>
      demand(applyRule(...example).length === 0, `"${example[0]}" refuses ${example[2]}`),
    ),
    ...Object.keys(RETIRED_NAMES).flatMap((name) => {
      const path = `packages/core/src/a-${name.replaceAll(' ', '-')}-b.ts`;
      return demand(applyRule(RETIRED, path, '').length > 0, `${path} is not refused`);
    }),
    ...checkLengths(),
    ...checkReach(),
  ];
}

/** Applies the import rules to a temporary workspace with the examples only. */
async function cruiseExamples(root: string): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'carillon-imports-'));
  const forbidden = FORBIDDEN_IMPORTS.map(([, path, source]) => [path, source] as const);
  try {
    cpSync(join(root, '.dependency-cruiser.mjs'), join(folder, '.dependency-cruiser.mjs'));
    for (const [path, text] of [
      ...Object.entries({ ...WORKSPACE, ...ALLOWED_IMPORTS }),
      ...forbidden,
    ]) {
      mkdirSync(join(folder, dirname(path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    mkdirSync(join(folder, 'node_modules/@carillon'));
    for (const name of ['core', 'store', 'reports', 'queue', 'new'])
      symlinkSync(`../../packages/${name}`, join(folder, 'node_modules/@carillon', name));
    symlinkSync('../../services/scheduler', join(folder, 'node_modules/@carillon/scheduler'));
    return (await cruiseImports(folder, ['packages', 'services'])).violations;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function applyRule(rule: string, path: string, source: string): string[] {
  const found = FILE_RULES.find(({ name }) => name === rule);
  if (found === undefined) throw new Error(`there is no rule "${rule}"`);
  return found.find(parseFile(path, source));
}

function checkLengths(): string[] {
  const path = 'services/api/src/a.ts';
  const inner = ['function inner() {', ...Array(40).fill('  a();'), '}'];
  const outer = (own: number) =>
    ['// First', 'function outer() {', ...Array(own - 3).fill('b();'), ...inner, '}'].join('\n');
  const file = applyRule('no file is long', path, '\n'.repeat(501));
  const functions = [61, 60].flatMap((own) => applyRule('no function is long', path, outer(own)));
  return [
    ...compare('a long file', file, ['501 lines']),
    ...compare('a long function', functions, ['2 outer has 61 lines']),
  ];
}

function checkReach(): string[] {
  const describe = ([path, source]: readonly [string, string]) => {
    const file = parseFile(path, source);
    return { path, imports: file.imports, urls: listUrls(file) };
  };
  const files = [
    ['services/api/src/main.ts', "import '@carillon/core/ids'; import './a.ts';"],
    ['services/api/src/a.ts', "new Worker(new URL('./b.ts', import.meta.url));"],
    ['services/api/src/b.ts', ''],
    ['packages/core/src/ids.ts', ''],
    ['packages/core/src/lost.ts', "import './lost.ts';"],
  ] as const;
  return compare('unreached files', findUnreachedFiles(files.map(describe)), [
    'packages/core/src/lost.ts',
  ]);
}
