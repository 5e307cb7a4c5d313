import { spawnSync } from 'node:child_process';
import { existsSync, globSync } from 'node:fs';
import { whyNoContainers } from '../deploy/why-no-containers.mjs';
import { ONE_MONGODB_ONLY } from '../topologies/one-mongodb-only.ts';
import { ONE_REDIS_ONLY } from '../topologies/one-redis-only.ts';

/** Where Debian's package `faketime` has the library, for each architecture. */
export const FAKETIME_LIBRARY = '/usr/lib/*/faketime/libfaketimeMT.so.1';

/** Words of a run that may have tests with containers. Whether these run here takes two seconds to find out. */
const CONTAINER_WORDS = ['deploy', 'rolling'];
const BROWSERS = ['firefox-esr', 'chromium'];

/** Files that a run of `npm test -- --topology NAME` leaves out, by the topology. */
const ONE_SERVER_ONLY = {
  cluster: ONE_REDIS_ONLY,
  sentinel: ONE_REDIS_ONLY,
  'replica-set': ONE_MONGODB_ONLY,
};

/** Returns why a program can't be used, or undefined. */
function unlessRuns(program, ...args) {
  const { status } = spawnSync(program, args, { stdio: 'ignore' });
  return status === 0 ? undefined : `${[program, ...args].join(' ')} fails here`;
}

/** Returns why the manifests can't be rendered (test/support/k8s/render.ts), or undefined. */
function unlessRenders() {
  const renderers = [
    ['kubectl', 'version', '--client'],
    ['kustomize', 'version'],
    ['go', 'version'],
  ];
  const isThere = renderers.some(
    ([program, ...args]) => unlessRuns(program, ...args) === undefined,
  );
  return isThere ? undefined : 'neither kubectl nor kustomize nor go is installed';
}

/** Returns why the chart can't be rendered (test/support/k8s/helm.ts), or undefined. */
function unlessHelm() {
  const isThere = [unlessRuns('helm', 'version'), unlessRuns('go', 'version')].includes(undefined);
  return isThere ? undefined : 'neither helm nor go is installed';
}

/** Returns why there are no browsers, or undefined. As root on Debian, their tests install them. */
function unlessBrowsers() {
  const missing = BROWSERS.filter((name) => !existsSync(`/usr/bin/${name}`));
  const canInstall = process.getuid?.() === 0 && existsSync('/usr/bin/apt-get');
  return missing.length === 0 || canInstall ? undefined : `no ${missing.join(', ')} here`;
}

/** Returns why a file can't be used, or undefined. */
function unlessExists(pattern) {
  return globSync(pattern).length > 0 ? undefined : `there is no ${pattern}`;
}

/**
 * Finds the tests that this machine can't run, and prints them. They are left out as files; `.ci/install` installs what they need.
 *
 * @param {readonly string[]} argv arguments of the run: tiers or paths
 * @returns {string[]} patterns of their paths
 */
export function findLeftOut(argv) {
  const isWith = (...words) => argv.some((arg) => words.some((word) => arg.includes(word)));
  const isWithContainers = isWith(...CONTAINER_WORDS);
  /** @type {[string[], string | undefined][]} */
  const needs = [
    // Only root may mount, and not in every container; tried in a mount namespace of its own.
    [
      ['full-disk-is-reported-and-cleaned-up', 'full-disk-of-a-server'],
      unlessRuns('unshare', '--mount', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt'),
    ],
    [['test/console/', 'test/web-push/'], unlessBrowsers()],
    [
      ['test/with-python/'],
      isWith('python') ? unlessRuns('python3', '-m', 'pip', '--version') : undefined,
    ],
    [['ci-runs-what-changed'], unlessRuns('git', '-c', 'safe.directory=*', 'ls-files')],
    [['promtool-accepts-the-rules'], unlessRuns('promtool', '--version')],
    [['alerts-fire-and-stop'], unlessRuns('prometheus', '--version')],
    [['rolling-restart-behind-haproxy'], unlessRuns('haproxy', '-v')],
    [
      ['wrong-clock', 'new-primary-with-a-clock-ahead', 'replica-set-failover'],
      unlessExists(FAKETIME_LIBRARY),
    ],
    [
      ['images-run-by-compose', 'k8s-pods-get-ready', 'rolling-restart-behind-haproxy'],
      isWithContainers ? whyNoContainers() : undefined,
    ],
    [
      ['k8s-overlays-are-valid', 'k8s-pods-get-ready', 'helm-chart-makes-the-overlays'],
      isWithContainers ? unlessRenders() : undefined,
    ],
    [['helm-chart-makes-the-overlays'], isWithContainers ? unlessHelm() : undefined],
  ];
  const ofOneServer = ONE_SERVER_ONLY[process.env.CARILLON_TEST_TOPOLOGY] ?? {};
  for (const [file, reason] of Object.entries(ofOneServer)) needs.push([[file], reason]);
  return needs.flatMap(([files, reason]) => {
    if (reason === undefined) return [];
    // On one line, which CI reads.
    const text = reason.trim().replaceAll(/\s+/g, ' ');
    process.stderr.write(`Left out: ${files.join(', ')} (${text}).\n`);
    return files.map((file) => `/${file}`);
  });
}
