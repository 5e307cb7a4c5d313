// Rules about imports, checked by scripts/checks/imports.ts. The parser is swc: dependency-cruiser supports
// TypeScript up to version 6. swc keeps type imports, so the rules hold for them too.

/** The packages of the workspace, each with the packages that it may import. Services and tools may import all of them. */
const PACKAGES = {
  core: [],
  runtime: ['core'],
  store: ['core'],
  reports: ['core', 'store'],
  webhooks: ['core', 'runtime', 'store'],
  queue: ['core', 'presence'],
  presence: ['core'],
  accept: ['core', 'store', 'queue', 'presence'],
  admin: ['core', 'store', 'reports', 'webhooks', 'queue', 'presence', 'runtime'],
};

/** The packages that may import only these libraries. */
const PURE_PACKAGES = { core: ['zod', 'ipaddr.js'] };

/** The only places that may import a library, as regular expressions. */
const LIBRARY_ROOMS = {
  express: [
    '^services/api/src/.*/routes\\.ts$',
    '^services/api/src/http/',
    '^services/dashboard/src/http/',
  ],
  bullmq: ['^packages/queue/'],
  '@bull-board/[^/]+': ['^services/dashboard/src/queues/'],
  mongodb: ['^packages/(store|reports|webhooks)/'],
  ioredis: ['^packages/presence/'],
  'mqtt-packet': ['^services/device-gateway/'],
  mqtt: ['^services/cli/'],
  'cli-progress': ['^services/cli/src/progress\\.ts$'],
  '@opentelemetry/[^/]+': ['^packages/runtime/src/opentelemetry\\.ts$'],
  pino: ['^packages/runtime/'],
  '@prometheus-io/client': ['^packages/runtime/'],
};

/**
 * The processes that accept and deliver pushes. Reports are read on behalf of people: nothing that delivers may wait for
 * one, or depend on what it shows. The packages of the engine are kept from them by PACKAGES.
 */
const ENGINE_SERVICES = ['delivery-worker', 'device-gateway', 'scheduler'];

/** Exports the scheduler's figures for autoscaling, which are a report. */
const BACKLOG_METRICS = '^services/scheduler/src/backlog-metrics\\.ts$';

const ANY_SOURCE = '^(packages|services|tools)/[^/]+/(src|bootstrap)/';
const PACKAGE_NAMES = Object.keys(PACKAGES).join('|');

/** A library in node_modules, wherever pnpm has put it. */
function library(...names) {
  return `(^|/)node_modules/(${names.join('|')})/`;
}

const packageRules = Object.entries(PACKAGES).map(([name, allowed]) => ({
  name: `packages/${name} imports only its allowed packages`,
  severity: 'error',
  from: { path: `^packages/${name}/src/` },
  to: { path: '^packages/', pathNot: `^packages/(${[name, ...allowed].join('|')})/` },
}));

const pureRules = Object.entries(PURE_PACKAGES).map(([name, libraries]) => ({
  name: `packages/${name} imports few libraries`,
  severity: 'error',
  from: { path: `^packages/${name}/src/` },
  to: { path: '(^|/)node_modules/', pathNot: library(...libraries) },
}));

const roomRules = Object.entries(LIBRARY_ROOMS).map(([name, rooms]) => ({
  name: `${name} stays in its room`,
  severity: 'error',
  from: { path: ANY_SOURCE, pathNot: rooms },
  to: { path: library(name) },
}));

export default {
  forbidden: [
    { name: 'no import circle', severity: 'error', from: {}, to: { circular: true } },
    ...packageRules,
    {
      name: 'a package is listed before it imports another or is imported',
      severity: 'error',
      from: { path: '^packages/([^/]+)/src/', pathNot: `^packages/(${PACKAGE_NAMES})/` },
      to: { path: '^packages/', pathNot: '^packages/$1/' },
    },
    {
      name: 'services import listed packages and no service',
      severity: 'error',
      from: { path: '^((services|tools)/[^/]+)/(src|bootstrap)/' },
      to: {
        path: '^(packages|services|tools)/',
        pathNot: [`^packages/(${PACKAGE_NAMES})/`, '^$1/'],
      },
    },
    {
      name: 'relative imports stay in their own package',
      severity: 'error',
      from: { path: '^((packages|services|tools)/[^/]+)/(src|bootstrap)/' },
      to: { dependencyTypes: ['local'], pathNot: '^$1/' },
    },
    {
      // Otherwise its code would be in the bundle.
      name: 'the pages import nothing of the server but types',
      severity: 'error',
      from: { path: '^services/dashboard/web/src/' },
      to: {
        path: '^(packages|services|tools)/',
        pathNot: '^services/dashboard/web/',
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'imports are declared in the own package.json',
      severity: 'error',
      from: { path: ANY_SOURCE },
      to: { dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown', 'unknown'] },
    },
    {
      name: 'the engine imports no reports',
      severity: 'error',
      from: { path: `^services/(${ENGINE_SERVICES.join('|')})/src/`, pathNot: BACKLOG_METRICS },
      to: { path: '^packages/reports/' },
    },
    ...pureRules,
    ...roomRules,
  ],
  options: {
    parser: 'swc',
    doNotFollow: { path: 'node_modules' },
    // Built files.
    exclude: { path: '^services/dashboard/web/dist/' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'types', 'node', 'default'],
      extensions: ['.ts', '.mjs', '.js', '.json'],
    },
  },
};
