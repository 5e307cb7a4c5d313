import {
  findVariable,
  findWorkloads,
  isSelected,
  type Manifest,
  type NetworkPeer,
  type NetworkRule,
  type Workload,
} from './manifest.ts';
import type { Rule } from './rule.ts';
import { SETTINGS } from './services.ts';

const DNS = ['53/UDP', '53/TCP'];
/** APNs, FCM and Web Push; APNs listens on both ports. */
const PROVIDER_PORTS = ['443/TCP', '2197/TCP'];
/** Settings of the sandbox with the ports that delivery-workers send to in place of the providers'. */
const SANDBOX_PROVIDERS = ['SANDBOX_APNS_LISTEN', 'SANDBOX_FCM_LISTEN'];
/** Addresses for operators, who use `kubectl port-forward`. */
const OPERATOR_SETTINGS = ['SANDBOX_LISTEN'];
/** A setting by which a service connects to a server, with the server's pods and port where it runs in the cluster. */
const DATA_SERVERS = [
  { variable: 'MONGODB_URI', server: 'mongodb', port: 27_017 },
  { variable: 'REDIS_URL', server: 'valkey', port: 6_379 },
];
/** Ranges that a Web Push endpoint given by a device must not reach: own networks, the node, a cloud's metadata. */
const PRIVATE_RANGES = [
  ...['10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12'],
  ...['192.168.0.0/16', '::1/128', 'fc00::/7', 'fe80::/10'],
];

function hasSetting(service: string, variable: string): boolean {
  return variable in (SETTINGS[service] ?? {});
}

/** Lists the services with a setting. */
function findUsers(variable: string): string[] {
  return Object.keys(SETTINGS).filter((service) => hasSetting(service, variable));
}

/** Lists the ports that a service listens on for others than itself. */
function findListenPorts({ container }: Workload, isScraped: boolean): string[] {
  const addresses = (container.env ?? [])
    .filter(({ name, value }) => name.endsWith('_LISTEN') && value !== 'off')
    .filter(({ name }) => isScraped || name !== 'OPS_LISTEN')
    .filter(({ name }) => !OPERATOR_SETTINGS.includes(name));
  return addresses.map(({ value }) => toPort(value));
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

/** Derives who talks to whom from the settings of the services: one line for each flow. */
export function deriveFlows(manifests: readonly Manifest[]): string[] {
  const isScraped = manifests.some(({ kind }) => kind === 'PodMonitor');
  const flows = findWorkloads(manifests).flatMap((workload) => {
    const { service } = workload;
    const outgoing = [
      ...DNS,
      ...DATA_SERVERS.filter(({ variable }) => hasSetting(service, variable)).map(
        ({ port }) => `${port}/TCP`,
      ),
      // Who can read the providers' secrets connects to the providers.
      ...(hasSetting(service, 'CREDENTIAL_KEYS')
        ? [...PROVIDER_PORTS, ...findSandboxPorts(manifests)]
        : []),
    ];
    const server = DATA_SERVERS.find((candidate) => candidate.server === service);
    const incoming = server ? [`${server.port}/TCP`] : findListenPorts(workload, isScraped);
    return [
      ...outgoing.map((port) => `${service} to ${port}`),
      ...incoming.map((port) => `${service} from ${port}`),
    ];
  });
  return [...new Set(flows)].sort();
}

function findPolicies(manifests: readonly Manifest[], labels: Workload['labels']): Manifest[] {
  return manifests.filter(
    ({ kind, spec }) => kind === 'NetworkPolicy' && isSelected(spec?.podSelector ?? {}, labels),
  );
}

function listPorts(rules: readonly NetworkRule[] = []): string[] {
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

const flows: Rule = {
  name: 'flows',
  check(manifests) {
    const needed = deriveFlows(manifests);
    const allowed = readFlows(manifests);
    return [
      ...needed.filter((flow) => !allowed.includes(flow)).map((flow) => `${flow} is not allowed`),
      ...allowed.filter((flow) => !needed.includes(flow)).map((flow) => `${flow} has no use`),
    ];
  },
};

const defaultDeny: Rule = {
  name: 'default deny',
  check: (manifests) =>
    findWorkloads(manifests)
      .filter(
        ({ labels }) =>
          !findPolicies(manifests, labels).some(
            ({ spec }) =>
              spec?.ingress === undefined &&
              spec?.egress === undefined &&
              spec?.policyTypes?.length === 2,
          ),
      )
      .map(({ name }) => `${name} is selected by no policy that denies everything`),
};

/** Lists the services that the peers of a policy let in. */
function findAllowedServices(peers: readonly NetworkPeer[] = []): string[] {
  return Object.keys(SETTINGS).filter((service) =>
    peers.some(
      ({ podSelector, namespaceSelector }) =>
        namespaceSelector === undefined &&
        podSelector !== undefined &&
        isSelected(podSelector, { 'app.kubernetes.io/name': service }),
    ),
  );
}

const dataServers: Rule = {
  name: 'data servers',
  check: (manifests) =>
    DATA_SERVERS.flatMap(({ variable, server }) => {
      const workload = findWorkloads(manifests).find(({ service }) => service === server);
      if (workload === undefined) return [];
      const rules = findPolicies(manifests, workload.labels).flatMap(
        ({ spec }) => spec?.ingress ?? [],
      );
      const allowed = rules.flatMap(({ from }) => findAllowedServices(from));
      const users = findUsers(variable);
      return [
        ...rules.filter(({ from }) => from === undefined).map(() => `${server} is open to all`),
        ...users
          .filter((name) => !allowed.includes(name))
          .map((name) => `${name} can't reach ${server}`),
        ...allowed
          .filter((name) => !users.includes(name))
          .map((name) => `${name} reaches ${server}`),
      ];
    }),
};

const privateRanges: Rule = {
  name: 'private ranges',
  check(manifests) {
    const toProviders = manifests
      .filter(({ kind }) => kind === 'NetworkPolicy')
      .flatMap(({ spec }) => spec?.egress ?? [])
      .filter((rule) => listPorts([rule]).includes('443/TCP'));
    return toProviders.flatMap(({ to }) => {
      const excepted = to?.flatMap(({ ipBlock }) => ipBlock?.except ?? []) ?? [];
      return PRIVATE_RANGES.filter((range) => !excepted.includes(range)).map(
        (range) => `${range} can be reached as a provider`,
      );
    });
  },
};

function findRule(manifests: readonly Manifest[], port: string): NetworkRule | undefined {
  return manifests
    .filter(({ kind }) => kind === 'NetworkPolicy')
    .flatMap(({ spec }) => spec?.ingress ?? [])
    .find((rule) => listPorts([rule]).includes(port));
}

function readProxySettings(manifests: readonly Manifest[]) {
  const workloads = findWorkloads(manifests);
  const find = (service: string, variable: string) => {
    const container = workloads.find((workload) => workload.service === service)?.container;
    return container && findVariable(container, variable);
  };
  const kinds = new Set(manifests.map(({ kind }) => kind));
  return {
    hasHttpProxy: kinds.has('Gateway') || kinds.has('Ingress'),
    hasMqttProxy: kinds.has('TLSRoute'),
    trustsProxy: Number(find('api', 'TRUST_PROXY')) > 0,
    readsProxyHeader: find('device-gateway', 'PROXY_PROTOCOL') === 'on',
  };
}

/** Behind a proxy that is not trusted, all devices share one address; a trusted header from anyone is forged. */
const clientAddresses: Rule = {
  name: 'client addresses',
  check(manifests) {
    const settings = readProxySettings(manifests);
    const isLimited = (port: string) => findRule(manifests, port)?.from !== undefined;
    return [
      ...(settings.hasHttpProxy !== settings.trustsProxy
        ? ['TRUST_PROXY is wrong for the api']
        : []),
      ...(settings.hasMqttProxy !== settings.readsProxyHeader
        ? ['PROXY_PROTOCOL is wrong for the device-gateway']
        : []),
      ...(settings.trustsProxy && !isLimited('4000/TCP')
        ? ['anyone can forge the address that the api reads from X-Forwarded-For']
        : []),
      ...(settings.readsProxyHeader && !isLimited('8883/TCP')
        ? ['anyone can forge the address that the device-gateway reads from the PROXY header']
        : []),
      ...manifests
        .filter(({ spec }) => spec?.type === 'LoadBalancer')
        .filter(({ spec }) => spec?.externalTrafficPolicy !== 'Local')
        .map(({ metadata }) => `${metadata.name} hides the addresses of devices`),
    ];
  },
};

/** A Service that selects nothing, or a port that no pod has, is found by no schema. */
const services: Rule = {
  name: 'services',
  check: (manifests) =>
    manifests
      .filter(({ kind }) => kind === 'Service')
      .flatMap(({ metadata, spec }) => {
        const pods = findWorkloads(manifests).filter(({ labels }) =>
          isSelected({ matchLabels: { ...spec?.selector } }, labels),
        );
        const names = pods.flatMap(
          ({ container }) => container.ports?.map(({ name }) => name) ?? [],
        );
        const missing = (spec?.ports ?? []).filter(
          ({ targetPort }) => !names.includes(String(targetPort)),
        );
        return missing.map(({ name }) => `${metadata.name} has the port ${name} and no pod has it`);
      }),
};

export const NETWORK_RULES: readonly Rule[] = [
  flows,
  defaultDeny,
  dataServers,
  privateRanges,
  clientAddresses,
  services,
];
