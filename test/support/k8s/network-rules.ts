import { deriveFlows } from './flows.ts';
import { isScraped } from './listeners.ts';
import {
  findDeployments,
  findVariable,
  findWorkloads,
  isSelected,
  type Manifest,
} from './manifest.ts';
import { findPodGroups, listBackends } from './pod-groups.ts';
import { ANY, findPolicies, INTERNET_BLOCKS, listPorts, readFlows } from './policy-flows.ts';
import type { Rule } from './rule.ts';
import { findSetting } from './services.ts';

const PROVIDER_CLIENT = 'delivery-worker';
/** Services behind the proxy for HTTPS, whose TRUST_PROXY follows it. */
const HTTP_SERVICES = ['api', 'dashboard'];
const ENDPOINT = 'OTEL_EXPORTER_OTLP_ENDPOINT';

/** The policies allow exactly the connections that the settings need: from which pods, to which peer, at which port. */
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
    findPodGroups(manifests)
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

/** No setting, such as the address of a collector, may open private addresses to workers on the port of the providers. */
const privateRanges: Rule = {
  name: 'private ranges',
  check(manifests) {
    const workers = findWorkloads(manifests).filter(({ service }) => service === PROVIDER_CLIENT);
    const policies = new Set(workers.flatMap(({ labels }) => findPolicies(manifests, labels)));
    const toProviders = [...policies]
      .flatMap(({ spec }) => spec?.egress ?? [])
      .filter(({ ports }) => listPorts(ports).includes('443/TCP'));
    return toProviders.flatMap(({ to }) => {
      const excepted = to?.flatMap(({ ipBlock }) => ipBlock?.except ?? []) ?? [];
      return INTERNET_BLOCKS.flatMap(({ except }) => except)
        .filter((range) => !excepted.includes(range))
        .map((range) => `${range} can be reached as a provider`);
    });
  },
};

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
    httpServices: HTTP_SERVICES.map((service) => ({
      service,
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
    const allowed = readFlows(manifests);
    const isOpen = (service: string) =>
      allowed.some((flow) => flow.startsWith(`${service} from ${ANY} `));
    return [
      ...settings.httpServices
        .filter(({ trustsProxy }) => settings.hasHttpProxy !== trustsProxy)
        .map(({ service }) => `TRUST_PROXY is wrong for the ${service}`),
      ...(settings.hasMqttProxy !== settings.readsProxyHeader
        ? ['PROXY_PROTOCOL is wrong for the device-gateway']
        : []),
      ...settings.httpServices
        .filter(({ trustsProxy, service }) => trustsProxy && isOpen(service))
        .map(
          ({ service }) =>
            `anyone can forge the address that the ${service} reads from X-Forwarded-For`,
        ),
      ...(settings.readsProxyHeader && isOpen('device-gateway')
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
    return (spec?.rules ?? []).flatMap((rule) => {
      if (!listBackends(rule).some(({ name }) => name === service)) return [];
      return spec?.hostnames ?? [rule.host ?? 'any host'];
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
    return exporters
      .filter(({ container }) => findVariable(container, ENDPOINT) !== endpoint)
      .map(({ name }) => `${name} does not export to ${endpoint}`);
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
  privateRanges,
  clientAddresses,
  consoleAddress,
  traces,
  scraped,
  services,
];
