import type { ProviderChannelName } from '../../../packages/core/src/channels.ts';
import { findClients, findScrapers, toPort } from './listeners.ts';
import { findVariable, type Manifest } from './manifest.ts';
import {
  findBackends,
  findPodGroups,
  findPodsOfService,
  listPodPorts,
  type PodGroup,
  type PodPort,
} from './pod-groups.ts';
import { ANY, formatFlow, INTERNET, NAME_LABEL, nameNamespace, type Peer } from './policy-flows.ts';
import { findSetting } from './services.ts';

/** To any address: with a DNS cache on the node the resolver is no pod. */
const DNS: Peer[] = ['53/UDP', '53/TCP'].map((port) => ({ name: ANY, port }));

/** Kubernetes' API, to which the agent beside each member of MongoDB writes its state; no manifest has the address. */
const KUBERNETES_API: Peer[] = ['443/TCP', '6443/TCP'].map((port) => ({ name: ANY, port }));

/**
 * Settings with the address of a data server, the port of its protocol, and the server's pods where it runs in the
 * cluster. The address is a secret, which no manifest has, so that clients may connect to any.
 */
const DATA_SERVERS = [
  { variable: 'MONGODB_URI', port: '27017/TCP', server: 'mongodb' },
  { variable: 'REDIS_URL', port: '6379/TCP', server: 'valkey' },
  // Another Redis than that of REDIS_URL.
  { variable: 'PRESENCE_REDIS_URL', port: '6379/TCP', server: undefined },
];
/** The pods that clients with REDIS_URL query for the primary, where these pods run in the cluster. */
const SENTINEL = 'valkey-sentinel';
/** Settings of data servers with the hosts of the set that a server belongs to, separated by spaces: `valkey-0.valkey-nodes`. */
const SET_VARIABLES = ['NODE', 'NODES', 'SENTINELS'];

/**
 * Ports to which a delivery-worker that takes a queue connects, and the setting of the sandbox with the port that it
 * simulates. 2197 is APNs' other port, for a credential whose server is `api.push.apple.com:2197`.
 */
const PROVIDERS: Readonly<
  Record<`deliver-${ProviderChannelName}` | 'webhook', { ports: string[]; sandbox?: string }>
> = {
  'deliver-apns': { ports: ['443/TCP', '2197/TCP'], sandbox: 'SANDBOX_APNS_LISTEN' },
  'deliver-fcm': { ports: ['443/TCP'], sandbox: 'SANDBOX_FCM_LISTEN' },
  'deliver-web-push': { ports: ['443/TCP'] },
  webhook: { ports: ['443/TCP'] },
};
const SANDBOX = 'sandbox';

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

function hasVariable({ container }: PodGroup, name: string): boolean {
  return [name, `${name}_FILE`].some((variable) =>
    container.env?.some((candidate) => candidate.name === variable),
  );
}

function toPeers(ports: readonly PodPort[]): Peer[] {
  return ports.map(({ group, port }) => ({ name: group, port }));
}

/** Lists the data servers that pods connect to by their settings. */
function findDataServers(group: PodGroup, groups: readonly PodGroup[]): Peer[] {
  const sentinels = groups.filter(({ name }) => name === SENTINEL);
  return [
    ...DATA_SERVERS.filter(({ variable }) => hasVariable(group, variable)).map(({ port }) => ({
      name: ANY,
      port,
    })),
    ...(hasVariable(group, 'REDIS_URL') ? toPeers(sentinels.flatMap(listPodPorts)) : []),
  ];
}

/** Lists the clients of pods that are a data server. */
function findDataClients({ name: server }: PodGroup, groups: readonly PodGroup[]): Peer[] {
  return DATA_SERVERS.filter((candidate) => candidate.server === server).flatMap(
    ({ variable, port }) =>
      groups.filter((group) => hasVariable(group, variable)).map(({ name }) => ({ name, port })),
  );
}

/** Lists the servers of the set that a data server belongs to. */
function findSet(group: PodGroup, manifests: readonly Manifest[]): Peer[] {
  const { container, members } = group;
  const hosts = SET_VARIABLES.flatMap((name) => findVariable(container, name)?.split(' ') ?? []);
  const services = new Set(hosts.map((host) => host.split('.').at(1) ?? ''));
  const servers = [...services].flatMap((service) => findPodsOfService(manifests, service));
  return [
    ...toPeers(servers.flatMap(listPodPorts)),
    ...(members === undefined ? [] : KUBERNETES_API),
    ...(members !== undefined && members > 1 ? toPeers(listPodPorts(group)) : []),
  ];
}

/** Lists the queues that pods take jobs from. */
function findQueues({ labels, container }: PodGroup): string[] {
  const setting = findSetting(labels[NAME_LABEL] ?? '', 'QUEUES');
  const parsed = setting?.safeParse(findVariable(container, 'QUEUES'));
  return Array.isArray(parsed?.data) ? parsed.data : [];
}

/** Lists the providers that pods send to, and the sandbox that simulates some of them. */
function findProviders(group: PodGroup, groups: readonly PodGroup[]): Peer[] {
  const sandbox = groups.find(({ name }) => name === SANDBOX);
  const queues = findQueues(group);
  return Object.entries(PROVIDERS)
    .filter(([queue]) => queues.includes(queue))
    .flatMap(([, { ports, sandbox: setting }]) => [
      ...ports.map((port) => ({ name: INTERNET, port })),
      ...(sandbox !== undefined && setting !== undefined
        ? [{ name: SANDBOX, port: toPort(findVariable(sandbox.container, setting)) }]
        : []),
    ]);
}

/**
 * Lists the servers whose URLs pods have. The host `NAME.NAMESPACE` is a Service of that namespace, and so is
 * `NAME.NAMESPACE.svc...`; `NAME` is one of the own namespace. No manifest has the address of any other host.
 */
function findUrlServers({ container }: PodGroup, manifests: readonly Manifest[]): Peer[] {
  const urls = URL_SETTINGS.flatMap((setting) => findVariable(container, setting) ?? []);
  return urls.flatMap((text) => {
    const { hostname, port: given, protocol } = new URL(text);
    const port = given || DEFAULT_PORTS[protocol] || '';
    const [service = '', namespace, domain = 'svc'] = hostname.split('.');
    if (namespace === undefined) return toPeers(findBackends(manifests, service, Number(port)));
    return { name: domain === 'svc' ? nameNamespace(namespace) : ANY, port: `${port}/TCP` };
  });
}

/** Derives the network flows from the settings of the services and from the routes to them: `api to any 27017/TCP`. */
export function deriveFlows(manifests: readonly Manifest[]): string[] {
  const groups = findPodGroups(manifests);
  const flows = groups.flatMap((group) => {
    const { name } = group;
    const servers = [
      ...DNS,
      ...findDataServers(group, groups),
      ...findSet(group, manifests),
      ...findProviders(group, groups),
      ...findUrlServers(group, manifests),
    ];
    const clients = [
      ...findDataClients(group, groups),
      ...findScrapers(group, manifests),
      ...findClients(group, manifests),
    ];
    const pods = servers.filter((server) => groups.some((other) => other.name === server.name));
    return [
      ...servers.map((server) => formatFlow(name, 'to', server)),
      ...pods.map((server) => formatFlow(server.name, 'from', { name, port: server.port })),
      ...clients.map((client) => formatFlow(name, 'from', client)),
    ];
  });
  return [...new Set(flows)].sort();
}
