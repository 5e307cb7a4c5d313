import { beforeAll, describe, expect, test } from '@jest/globals';
import { checkImports, checkImportsOf, type ImportReport } from './support/architecture/imports.ts';
import { findUnreachedFiles } from './support/architecture/reach.ts';
import { RETIRED_NAMES } from './support/architecture/retired-names.ts';
import { FILE_RULES } from './support/architecture/rules.ts';
import { describeFile } from './support/architecture/source-file.ts';
import { readWorkspace } from './support/architecture/workspace.ts';

const workspace = readWorkspace();

function violationsOf(rule: string, path: string, source: string) {
  const found = FILE_RULES.find(({ name }) => name === rule);
  if (found === undefined) throw new Error(`there is no rule "${rule}"`);
  return found.violations(describeFile(path, source));
}

describe('the workspace follows the architecture rules', () => {
  test('it has sources', () => expect(workspace.sources.length).toBeGreaterThan(0));

  test('imports', async () => {
    const { files, violations } = await checkImports();
    expect(files).toBeGreaterThan(workspace.sources.length);
    expect(violations).toEqual([]);
  });

  test.each(FILE_RULES)('$name', ({ alsoTests = false, violations }) => {
    const files = alsoTests ? [...workspace.sources, ...workspace.tests] : workspace.sources;
    expect(files.flatMap((file) => violations(file))).toEqual([]);
  });

  test('every source file is reached from a main.ts or a test', () => {
    const sources = new Set(workspace.sources.map(({ path }) => path));
    const files = [...workspace.sources, ...workspace.tests];
    expect(findUnreachedFiles(files).filter((path) => sources.has(path))).toEqual([]);
  });

  test('the root has no dependencies at run time', () => {
    expect(workspace.rootDependencies).toEqual([]);
  });
});

describe('a violation of the import rules is reported', () => {
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

  const forbidden: [rule: string, path: string, source: string][] = [
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
  const allowed = {
    // It closes the circle of l.ts, which is reported once.
    'services/api/src/m.ts': "import type { L } from './l.ts'; export type M = L;",
    'services/api/src/n.ts': "import '@carillon/store/db';",
    'services/api/src/o/p.ts': "import '../n.ts';",
    'services/api/src/q.ts': "// import 'zod';\nconst text = `import 'zod'`;",
    'services/dashboard/web/src/b.ts': "import type { N } from '../../../api/src/n.ts';",
    'services/api/src/push/routes.ts': "import { Router } from 'express';",
  };

  let report: ImportReport;
  beforeAll(async () => {
    const files = Object.fromEntries(forbidden.map(([, path, source]) => [path, source]));
    report = await checkImportsOf({ ...files, ...allowed });
  });

  test.each(forbidden)('%s: %s with %j', (rule, path) => {
    expect(report.violations).toContainEqual(expect.stringContaining(`${rule}: ${path} → `));
  });

  test.each(Object.keys(allowed))('and an allowed import is not: %s', (path) => {
    expect(report.violations.filter((violation) => violation.includes(`${path} →`))).toEqual([]);
  });
});

describe('a violation of the rules for files is reported', () => {
  const BUILTIN = 'built-in modules are imported with node:, types by import declarations';
  const PROCESS = 'only the edges touch process';
  const DATABASE = 'only the packages of MongoDB take the database from a store';
  const RETIRED = 'no file name or exported name contains a retired word';
  const HTTP = 'what keeps running takes node:http from the runtime';

  test.each([
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
  ])('%s: %s with %j', (rule, path, source) => {
    expect(violationsOf(rule, path, source).length).toBeGreaterThan(0);
  });

  test.each(Object.keys(RETIRED_NAMES))('the retired word "%s"', (retired) => {
    const name = retired.replaceAll(' ', '-');
    expect(violationsOf(RETIRED, `packages/core/src/a-${name}-b.ts`, '')).not.toEqual([]);
  });

  test.each([
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
  ])('but not what is allowed: %s: %s with %j', (rule, path, source) => {
    expect(violationsOf(rule, path, source)).toEqual([]);
  });

  test('a file of 501 lines', () => {
    const found = violationsOf('no file is long', 'services/api/src/a.ts', '\n'.repeat(501));
    expect(found).toEqual(['services/api/src/a.ts has 501 lines']);
  });

  test('a function of 61 lines of its own', () => {
    const inner = ['function inner() {', ...Array(40).fill('  a();'), '}'];
    const outer = (own: number) =>
      ['// First', 'function outer() {', ...Array(own - 3).fill('b();'), ...inner, '}'].join('\n');
    const check = (source: string) =>
      violationsOf('no function is long', 'services/api/src/a.ts', source);
    expect(check(outer(61))).toEqual(['services/api/src/a.ts:2 outer has 61 lines']);
    expect(check(outer(60))).toEqual([]);
  });

  test('a file that no entry point imports', () => {
    const files = [
      describeFile('services/api/src/main.ts', "import '@carillon/core/ids'; import './a.ts';"),
      describeFile('services/api/src/a.ts', "new Worker(new URL('./b.ts', import.meta.url));"),
      describeFile('services/api/src/b.ts', ''),
      describeFile('packages/core/src/ids.ts', ''),
      describeFile('packages/core/src/lost.ts', "import './lost.ts';"),
    ];
    expect(findUnreachedFiles(files)).toEqual(['packages/core/src/lost.ts']);
  });
});
