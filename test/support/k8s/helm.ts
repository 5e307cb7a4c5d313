import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';
import type { Manifest } from './manifest.ts';

const execFileAsync = promisify(execFile);
const ROOT = new URL('../../../', import.meta.url);
/** Compiled from the module's source in some minutes the first time. */
const HELM_MODULE = 'helm.sh/helm/v3/cmd/helm@v3.22.0';
/** The version of Kubernetes for which it renders without a cluster, which a release of Helm has compiled in. */
const KUBERNETES = ['Major=1', 'Minor=35']
  .map((version) => `-X helm.sh/helm/v3/pkg/chartutil.k8sVersion${version}`)
  .join(' ');
const HELMS: readonly (readonly string[])[] = [
  ['helm'],
  ['go', 'run', '-ldflags', KUBERNETES, HELM_MODULE],
];

/** Overlays that the chart makes too, with the values that do. */
export const OVERLAYS_AS_VALUES: Readonly<Record<string, object>> = {
  dev: {
    trialServers: { enabled: true },
    replicas: { api: 1, deliveryWorker: 1, scheduler: 1, deviceGateway: 1, dashboard: 1 },
  },
  plain: { expose: { by: 'ingress' }, autoscaling: 'hpa' },
  prod: {
    expose: { by: 'gateway-api' },
    issuer: 'letsencrypt',
    autoscaling: 'keda',
    monitoring: { enabled: true },
  },
};

/**
 * Runs Helm in the repository's root, without a cluster.
 *
 * @param input what it reads from standard input: values for `-f -`
 * @returns its output
 * @throws with its output
 */
export async function runHelm(args: readonly string[], input = ''): Promise<string> {
  for (const [program = '', ...first] of HELMS) {
    try {
      const run = execFileAsync(program, [...first, ...args], {
        cwd: ROOT,
        maxBuffer: 16 * 1_024 * 1_024,
      });
      run.child.stdin?.end(input);
      return (await run).stdout;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  throw new Error('Install helm (3.18 or newer) or go (1.25 or newer) to check k8s/chart');
}

/** Renders the chart with values. @throws with Helm's output when it refuses them */
export async function renderWithHelm(values: object, namespace: string): Promise<Manifest[]> {
  const args = ['template', 'carillon', 'k8s/chart', '--namespace', namespace, '-f', '-'];
  const output = await runHelm(args, JSON.stringify(values));
  return parseAllDocuments(output, { version: '1.1' }).map((one) => one.toJS() as Manifest);
}
