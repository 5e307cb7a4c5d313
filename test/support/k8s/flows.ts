import {
  type Container,
  findVariable,
  findWorkloads,
  isSelected,
  type Manifest,
  type NetworkRule,
  type Workload,
} from './manifest.ts';
import { SETTINGS } from './services.ts';

const DNS = ['53/UDP', '53/TCP'];
/** APNs, FCM and Web Push; APNs listens on both ports. */
const PROVIDER_PORTS = ['443/TCP', '2197/TCP'];
/** Settings of the sandbox with the ports that delivery-workers send to instead of the providers'. */
const SANDBOX_PROVIDERS = ['SANDBOX_APNS_LISTEN', 'SANDBOX_FCM_LISTEN'];
/** Addresses for operators, who use `kubectl port-forward`. */
const OPERATOR_SETTINGS = ['SANDBOX_LISTEN'];
/** Settings that contain the URL of another server. */
const URL_SETTINGS = [
  'OTEL_EXPORTER_OTLP_ENDPOINT',
  'OIDC_ISSUER',
  'CARILLON_API',
  'CARILLON_MQTT',
];
const DEFAULT_PORTS: Readonly<Record<string, string>> = {
  'http:': '80',
  'https:': '443',
  'mqtt:': '1883',
  'mqtts:': '8883',
};
/** Option of the command line for the address of its metrics. */
const METRICS_OPTION = '--listen';
/** A setting by which a service connects to a server, with the server's pods and port where it runs in the cluster. */
export const DATA_SERVERS = [
  { variable: 'MONGODB_URI', server: 'mongodb', port: 27_017 },
  { variable: 'REDIS_URL', server: 'valkey', port: 6_379 },
];

/** Pods of servers that replace each other; they connect to each other on all of their ports. */
const SENTINEL = 'valkey-sentinel';
const SET_OF_SERVERS = ['valkey', SENTINEL];

function hasSetting(service: string, variable: string): boolean {
  return variable in (SETTINGS[service] ?? {});
}

/** Lists the services with a setting. */
export function findUsers(variable: string): string[] {
  return Object.keys(SETTINGS).filter((service) => hasSetting(service, variable));
}

/** Lists the ports that a service listens on for others than itself. */
function findListenPorts({ container }: Workload, hasScraper: boolean): string[] {
  const { args = [], env = [] } = container;
  const addresses = env
    .filter(({ name, value }) => name.endsWith('_LISTEN') && value !== 'off')
    .filter(({ name }) => hasScraper || name !== 'OPS_LISTEN')
    .filter(({ name }) => !OPERATOR_SETTINGS.includes(name))
    .map(({ value }) => value);
  if (hasScraper && args.includes(METRICS_OPTION)) {
    addresses.push(args[args.indexOf(METRICS_OPTION) + 1]);
  }
  return addresses.map(toPort);
}

function toPort(address = ''): string {
  return `${address.split(':').at(-1)}/TCP`;
}

/** Lists the ports of the providers that a sandbox in the cluster simulates. */
function findSandboxPorts(manifests: readonly Manifest[]): string[] {
  const sandbox = findWorkloads(manifests).find(({ service }) => service === 'sandbox');
  if (sandbox === undefined) return [];
  return SANDBOX_PROVIDERS.map((name) => toPort(findVariable(sandbox.container, name)));
}

/** Checks whether a PodMonitor has Prometheus read the metrics of pods with these labels. */
export function isScraped(manifests: readonly Manifest[], labels: Workload['labels']): boolean {
  return manifests.some(
    ({ kind, spec }) => kind === 'PodMonitor' && isSelected(spec?.selector ?? {}, labels),
  );
}

/** Lists the ports of the servers whose URLs a container has. */
function findUrlPorts(container: Container): string[] {
  return URL_SETTINGS.flatMap((name) => findVariable(container, name) ?? []).map((text) => {
    const { port, protocol } = new URL(text);
    return `${port || DEFAULT_PORTS[protocol]}/TCP`;
  });
}

function portsOf({ container }: Workload): string[] {
  return (container.ports ?? []).map(({ containerPort }) => `${containerPort}/TCP`);
}

/** Lists the ports of the servers of a set; none if a server stands alone. */
function findSetPorts(workloads: readonly Workload[]): string[] {
  const servers = workloads.filter(({ service }) => SET_OF_SERVERS.includes(service));
  const isSet = servers.some(({ manifest }) => (manifest.spec?.replicas ?? 1) > 1);
  return isSet ? [...new Set(servers.flatMap(portsOf))] : [];
}

/** Lists the ports of the Sentinels that users of Redis query for the primary. */
function findSentinelPorts(workloads: readonly Workload[], service: string): string[] {
  if (!hasSetting(service, 'REDIS_URL')) return [];
  return workloads.filter((workload) => workload.service === SENTINEL).flatMap(portsOf);
}

/** Derives the network flows from the settings of the services: one line for each. */
export function deriveFlows(manifests: readonly Manifest[]): string[] {
  const workloads = findWorkloads(manifests);
  const flows = workloads.flatMap((workload) => {
    const { service, labels, container } = workload;
    const isOfSet = SET_OF_SERVERS.includes(service);
    const outgoing = [
      ...DNS,
      ...(isOfSet ? findSetPorts(workloads) : []),
      ...findSentinelPorts(workloads, service),
      ...DATA_SERVERS.filter(({ variable }) => hasSetting(service, variable)).map(
        ({ port }) => `${port}/TCP`,
      ),
      // Services that can read the providers' secrets and take jobs connect to the providers; the console only saves secrets.
      ...(hasSetting(service, 'CREDENTIAL_KEYS') && hasSetting(service, 'QUEUES')
        ? [...PROVIDER_PORTS, ...findSandboxPorts(manifests)]
        : []),
      ...findUrlPorts(container),
    ];
    const server = DATA_SERVERS.find((candidate) => candidate.server === service);
    const incoming = isOfSet
      ? portsOf(workload)
      : server
        ? [`${server.port}/TCP`]
        : findListenPorts(workload, isScraped(manifests, labels));
    return [
      ...outgoing.map((port) => `${service} to ${port}`),
      ...incoming.map((port) => `${service} from ${port}`),
    ];
  });
  return [...new Set(flows)].sort();
}

/** Finds the policies that select pods with these labels. */
export function findPolicies(
  manifests: readonly Manifest[],
  labels: Workload['labels'],
): Manifest[] {
  return manifests.filter(
    ({ kind, spec }) => kind === 'NetworkPolicy' && isSelected(spec?.podSelector ?? {}, labels),
  );
}

/** Lists the ports of a policy's rules. */
export function listPorts(rules: readonly NetworkRule[] = []): string[] {
  return rules.flatMap(({ ports }) =>
    // No ports are all ports.
    ports === undefined ? ['any'] : ports.map(({ port, protocol }) => `${port}/${protocol}`),
  );
}

/** Lists the flows that the policies allow, in the same words. */
export function readFlows(manifests: readonly Manifest[]): string[] {
  const flows = findWorkloads(manifests).flatMap(({ service, labels }) =>
    findPolicies(manifests, labels).flatMap(({ spec }) => [
      ...listPorts(spec?.egress).map((port) => `${service} to ${port}`),
      ...listPorts(spec?.ingress).map((port) => `${service} from ${port}`),
    ]),
  );
  return [...new Set(flows)].sort();
}
