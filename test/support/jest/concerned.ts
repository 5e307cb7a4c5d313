/**
 * The tiers that a change of a file concerns, by the file's path: of the beginnings that fit, the longest counts. `npm test`
 * (the tiers `fast` and `stack`) is run for each change, so a row without a tier says that it is enough; slices of all other
 * tiers follow in turn. Of a changed test file, the file itself is run.
 */
const TIERS_OF_PATHS: readonly (readonly [beginning: string, ...tiers: string[]])[] = [
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
  ['deploy/haproxy.cfg', 'rolling'],
  ['deploy/image/', 'deploy', 'rolling'],
  ['deploy/observability/', 'waiting'],
  ['docker-compose.yml', 'deploy', 'rolling'],
  ['docs/'],
  ['k8s/', 'deploy'],
  ['knip.json'],
  ['package.json'],
  ['packages/'],
  ['packages/presence/src/cluster', 'topologies'],
  ['packages/presence/src/inspect-', 'topologies'],
  ['packages/presence/src/redis', 'topologies'],
  ['packages/store/src/topology.ts', 'topologies'],
  ['packages/web-client/', 'browsers'],
  ['pnpm-lock.yaml', 'deploy', 'browsers'],
  ['pnpm-workspace.yaml', 'deploy'],
  ['scripts/'],
  ['services/'],
  ['services/api/src/', 'python'],
  ['services/dashboard/src/', 'browsers'],
  ['services/dashboard/web/', 'browsers'],
  // What keeps the guarantees when a process dies; most of their tests are long.
  ['services/delivery-worker/src/', 'long'],
  ['services/scheduler/src/', 'long'],
  ['test/'],
  ['test/deploy/', 'deploy'],
  ['test/faults/', 'faults'],
  ['test/model/', 'long'],
  ['test/support/console/', 'browsers'],
  ['test/support/deploy/', 'deploy', 'rolling'],
  ['test/support/faults/', 'faults'],
  ['test/support/k8s/', 'deploy'],
  ['test/support/operators/', 'waiting'],
  ['test/support/topologies/', 'topologies'],
  ['test/support/upgrade/', 'long'],
  ['test/support/web-push/', 'browsers'],
  ['test/support/with-python/', 'python'],
  ['tools/'],
  ['tsconfig.base.json'],
  ['tsconfig.json'],
];

/** What a list of changed files concerns. */
export interface Concerned {
  /** A changed file for each tier: the first of the list. */
  tiers: Map<string, string>;
  /** Test files among them. */
  files: string[];
}

/** Finds what changed files concern. Undefined when the table has no row for one of them. */
export function findConcerned(changed: readonly string[]): Concerned | undefined {
  const tiers = new Map<string, string>();
  const files = changed.filter((path) => path.endsWith('.test.ts'));
  for (const path of changed.filter((one) => !files.includes(one))) {
    const row = findRow(path);
    if (row === undefined) return undefined;
    const [, ...names] = row;
    for (const name of names) if (!tiers.has(name)) tiers.set(name, path);
  }
  return { tiers, files };
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
