const INTERRUPTED_RUN = 'test/first-run/interrupted-tests-leave-no-process.test.ts';

/**
 * The tiers, or single test files, that a change of a file concerns, by the file's path: of the beginnings that fit, the
 * longest counts. `npm test` (the tiers `fast` and `stack`) is run for each change, so a row without a tier says that it is
 * enough; slices of all other tiers follow in turn. Of a changed test file, the file itself is run.
 */
const TIERS_OF_PATHS: readonly (readonly [beginning: string, ...tiersOrFiles: string[]])[] = [
  ['.ci/'],
  ['.dependency-cruiser.mjs'],
  ['.dockerignore', 'deploy'],
  ['.editorconfig'],
  ['.github/'],
  ['.gitignore'],
  ['CHANGELOG.md'],
  ['CONTRIBUTING.md'],
  ['Dockerfile', 'deploy', 'rolling'],
  ['LICENSE'],
  ['README.md'],
  ['SECURITY.md'],
  ['bench/'],
  ['biome.json'],
  ['deploy/haproxy.cfg', 'deploy', 'rolling'],
  ['deploy/image/', 'deploy', 'rolling'],
  ['deploy/observability/', 'waiting'],
  ['docker-compose.yml', 'deploy', 'rolling'],
  ['docs/'],
  // Tests run the code of these pages; those of the other pages are in the tier `stack`.
  ['docs/run/deploy-with-compose.md', 'deploy'],
  ['docs/use/receive/small-machine.md', 'test/with-python/python-sdk-works.test.ts'],
  ['docs/use/receive/web.md', 'test/web-push/chromium-shows-a-push.test.ts'],
  ['k8s/', 'deploy'],
  ['knip.json'],
  ['package.json'],
  ['packages/'],
  ['packages/presence/src/inspect-', 'topologies'],
  ['packages/presence/src/presence-server.ts', 'topologies'],
  ['packages/presence/src/redis', 'topologies'],
  ['packages/store/src/topology.ts', 'topologies'],
  ['packages/web-client/', 'browsers'],
  // Its sender is a part of the delivery-worker.
  ['packages/webhooks/src/', 'long'],
  ['pnpm-lock.yaml', 'deploy', 'browsers'],
  ['pnpm-workspace.yaml', 'deploy'],
  ['scripts/'],
  ['scripts/helm-', 'deploy'],
  ['services/'],
  ['services/api/src/', 'python'],
  ['services/dashboard/src/', 'browsers'],
  ['services/dashboard/web/', 'browsers'],
  // What keeps the guarantees when a process dies; most of their tests are long.
  ['services/delivery-worker/src/', 'long'],
  ['services/scheduler/src/', 'long'],
  ['test/'],
  ['test/deploy/', 'deploy'],
  ['test/model/', 'test/model/stack-behaves-like-the-model.test.ts'],
  ['test/support/console/', 'browsers'],
  ['test/support/deploy/', 'deploy', 'rolling'],
  ['test/support/faults/', 'faults'],
  ['test/support/k8s/', 'deploy'],
  ['test/support/operators/', 'waiting'],
  ['test/support/topologies/', 'topologies'],
  ['test/support/web-push/', 'browsers'],
  ['test/support/with-python/', 'python'],
  ['tools/'],
  ['tools/supervisor/bootstrap/command.mjs', INTERRUPTED_RUN],
  ['tools/supervisor/bootstrap/test-run.mjs', INTERRUPTED_RUN],
  ['tsconfig.base.json'],
  ['tsconfig.json'],
];

/** What a list of changed files concerns. */
export interface Concerned {
  /** A changed file for each tier: the first of the list. */
  tiers: Map<string, string>;
  /** Single test files. */
  files: string[];
}

/** Finds what changed files concern. Undefined when the table has no row for one of them. */
export function findConcerned(changed: readonly string[]): Concerned | undefined {
  const tiers = new Map<string, string>();
  const files = new Set<string>();
  for (const path of changed) {
    const row = isTest(path) ? ['', path] : findRow(path);
    if (row === undefined) return undefined;
    for (const name of row.slice(1)) {
      if (isTest(name)) files.add(name);
      else if (!tiers.has(name)) tiers.set(name, path);
    }
  }
  return { tiers, files: [...files] };
}

function isTest(path: string): boolean {
  return path.endsWith('.test.ts');
}

function findRow(path: string) {
  return TIERS_OF_PATHS.filter(([beginning]) => path.startsWith(beginning)).toSorted(
    ([a], [b]) => b.length - a.length,
  )[0];
}

/** Lists the beginnings of the table that none of the paths has. */
export function findUnusedRows(paths: readonly string[]): string[] {
  const used = new Set(paths.map((path) => findRow(path)?.[0]));
  return TIERS_OF_PATHS.map(([beginning]) => beginning).filter((one) => !used.has(one));
}
