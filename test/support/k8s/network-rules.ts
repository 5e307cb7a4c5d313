import {
  DATA_SERVERS,
  deriveFlows,
  findPolicies,
  findUsers,
  isScraped,
  listPorts,
  readFlows,
} from './flows.ts';
import {
  findDeployments,
  findVariable,
  findWorkloads,
  isSelected,
  type Manifest,
  type NetworkPeer,
  type NetworkRule,
} from './manifest.ts';
import type { Rule } from './rule.ts';
import { findSetting, SETTINGS } from './services.ts';

/** Ranges that a Web Push endpoint given by a device must not reach: own networks, the node, a cloud's metadata. */
const PRIVATE_RANGES = [
  ...['10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12'],
  ...['192.168.0.0/16', '::1/128', 'fc00::/7', 'fe80::/10'],
];
const PROVIDER_CLIENT = 'delivery-worker';
/** Services behind the proxy for HTTPS, whose TRUST_PROXY follows it. */
const HTTP_SERVICES = [
  { service: 'api', port: '4000/TCP' },
  { service: 'dashboard', port: '4010/TCP' },
];
const ENDPOINT = 'OTEL_EXPORTER_OTLP_ENDPOINT';
const NAMESPACE_LABEL = 'kubernetes.io/metadata.name';

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
    const workers = findWorkloads(manifests).filter(({ service }) => service === PROVIDER_CLIENT);
    const policies = new Set(workers.flatMap(({ labels }) => findPolicies(manifests, labels)));
    const toProviders = [...policies]
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
    httpServices: HTTP_SERVICES.map(({ service, port }) => ({
      ...{ service, port },
      trustsProxy: Number(find(service, 'TRUST_PROXY')) > 0,
    })),
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
      ...settings.httpServices
        .filter(({ trustsProxy }) => settings.hasHttpProxy !== trustsProxy)
        .map(({ service }) => `TRUST_PROXY is wrong for the ${service}`),
      ...(settings.hasMqttProxy !== settings.readsProxyHeader
        ? ['PROXY_PROTOCOL is wrong for the device-gateway']
        : []),
      ...settings.httpServices
        .filter(({ trustsProxy, port }) => trustsProxy && !isLimited(port))
        .map(
          ({ service }) =>
            `anyone can forge the address that the ${service} reads from X-Forwarded-For`,
        ),
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

/** Lists the host names by which an Ingress or an HTTPRoute leads to a Service. */
function findHosts(manifests: readonly Manifest[], service: string): string[] {
  return manifests.flatMap(({ kind, spec }) => {
    if (kind !== 'Ingress' && kind !== 'HTTPRoute') return [];
    return (spec?.rules ?? []).flatMap(({ host, http, backendRefs = [] }) => {
      const ofIngress = http?.paths.map(({ backend }) => backend.service.name) ?? [];
      const names = [...ofIngress, ...backendRefs.map(({ name }) => name)];
      if (!names.includes(service)) return [];
      return spec?.hostnames ?? [host ?? 'any host'];
    });
  });
}

/** The console refuses host names that it does not know, and its links name CONSOLE_URL. */
const consoleAddress: Rule = {
  name: 'console address',
  check: (manifests) =>
    findDeployments(manifests)
      .filter(({ service }) => service === 'dashboard')
      .flatMap(({ container }) => {
        const url = findVariable(container, 'CONSOLE_URL');
        const hasIssuer = findVariable(container, 'OIDC_ISSUER') !== undefined;
        return [
          ...findHosts(manifests, 'dashboard')
            .filter((host) => url !== `https://${host}`)
            .map((host) => `CONSOLE_URL is not https://${host}`),
          ...(hasIssuer && url === undefined ? ['single sign-on has no CONSOLE_URL'] : []),
        ];
      }),
};

/** A service without the collector's address leaves a gap in every trace that passes it. */
const traces: Rule = {
  name: 'traces',
  check(manifests) {
    const exporters = findDeployments(manifests).filter(
      ({ service }) => findSetting(service, ENDPOINT) !== undefined,
    );
    const endpoints = new Set(exporters.map(({ container }) => findVariable(container, ENDPOINT)));
    const [endpoint] = [...endpoints].filter((found) => found !== undefined);
    if (endpoint === undefined) return [];
    const url = new URL(endpoint);
    const [, namespace] = url.hostname.split('.');
    const policies = manifests.filter(
      ({ kind, spec }) =>
        kind === 'NetworkPolicy' && listPorts(spec?.egress).includes(`${url.port}/TCP`),
    );
    const peers = policies.flatMap(({ spec }) => spec?.egress?.map(({ to }) => to) ?? []);
    const isCollector = ({ namespaceSelector }: NetworkPeer) =>
      namespaceSelector?.matchLabels?.[NAMESPACE_LABEL] === namespace;
    return [
      ...exporters
        .filter(({ container }) => findVariable(container, ENDPOINT) !== endpoint)
        .map(({ name }) => `${name} does not export to ${endpoint}`),
      ...(peers.every((to) => to?.every(isCollector) === true)
        ? []
        : [`others than the namespace ${namespace} are reached as the collector`]),
    ];
  },
};

/** A Deployment that no PodMonitor selects has no metrics, and no alert reports it. */
const scraped: Rule = {
  name: 'scraped',
  check: (manifests) =>
    manifests.some(({ kind }) => kind === 'PodMonitor')
      ? findDeployments(manifests)
          .filter(({ labels }) => !isScraped(manifests, labels))
          .map(({ name }) => `the metrics of ${name} are not scraped`)
      : [],
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
  consoleAddress,
  traces,
  scraped,
  services,
];
