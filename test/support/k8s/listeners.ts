import { findVariable, isSelected, type Labels, type Manifest } from './manifest.ts';
import { findBackends, listBackends, type PodGroup, type PodPort } from './pod-groups.ts';
import { ANY, nameNamespace, type Peer } from './policy-flows.ts';

/**
 * Namespaces of programs that are not Carillon's, which no setting names: of the proxy, by the kind of the route that it
 * serves, and of Prometheus. docs/deploy-on-kubernetes.md lists them among the values to change.
 */
const PROXY_NAMESPACES: Readonly<Record<string, string>> = {
  HTTPRoute: 'envoy-gateway-system',
  TLSRoute: 'envoy-gateway-system',
  Ingress: 'ingress-nginx',
};
const PROMETHEUS_NAMESPACE = 'monitoring';

/** Setting, and option of the command line, with the address of the metrics. */
const METRICS_SETTING = 'OPS_LISTEN';
const METRICS_OPTION = '--listen';
/** Addresses of the sandbox: for operators, who use `kubectl port-forward`, and for delivery-workers, see flows.ts. */
const SANDBOX_SETTINGS = ['SANDBOX_LISTEN', 'SANDBOX_APNS_LISTEN', 'SANDBOX_FCM_LISTEN'];

/** Returns the port of an address that a server listens on: `4000/TCP`. */
export function toPort(address = ''): string {
  return `${address.split(':').at(-1)}/TCP`;
}

/** Checks whether a PodMonitor has Prometheus read the metrics of pods with these labels. */
export function isScraped(manifests: readonly Manifest[], labels: Labels): boolean {
  return manifests.some(
    ({ kind, spec }) => kind === 'PodMonitor' && isSelected(spec?.selector ?? {}, labels),
  );
}

/** Returns Prometheus for each port with metrics that it reads. */
export function findScrapers(
  { labels, container }: PodGroup,
  manifests: readonly Manifest[],
): Peer[] {
  if (!isScraped(manifests, labels)) return [];
  const { args = [] } = container;
  const option = args.includes(METRICS_OPTION) ? args[args.indexOf(METRICS_OPTION) + 1] : undefined;
  const addresses = [findVariable(container, METRICS_SETTING), option];
  return addresses
    .filter((address) => address !== undefined)
    .map((address) => ({ name: nameNamespace(PROMETHEUS_NAMESPACE), port: toPort(address) }));
}

/** Lists the peers that a manifest lets connect to a port of pods: the proxy of a route, or any by a load balancer. */
function findEntrances(manifests: readonly Manifest[], { group, port }: PodPort): string[] {
  return manifests
    .filter(({ kind, metadata: { name }, spec }) => {
      const ofRoute = kind in PROXY_NAMESPACES ? spec?.rules?.flatMap(listBackends) : undefined;
      const ofBalancer = spec?.type === 'LoadBalancer' ? spec.ports : undefined;
      return [...(ofRoute ?? []), ...(ofBalancer ?? []).map((one) => ({ name, port: one.port }))]
        .flatMap((backend) => findBackends(manifests, backend.name, backend.port))
        .some((backend) => backend.group === group && backend.port === port);
    })
    .map(({ kind }) => {
      const namespace = PROXY_NAMESPACES[kind];
      return namespace === undefined ? ANY : nameNamespace(namespace);
    });
}

/** Lists the clients of the ports that a service listens on; a port to which no proxy leads is for any. */
export function findClients(
  { name: group, container }: PodGroup,
  manifests: readonly Manifest[],
): Peer[] {
  return (container.env ?? [])
    .filter(({ name, value }) => name.endsWith('_LISTEN') && value !== 'off')
    .filter(({ name }) => ![METRICS_SETTING, ...SANDBOX_SETTINGS].includes(name))
    .flatMap(({ value }) => {
      const port = toPort(value);
      const entrances = findEntrances(manifests, { group, port });
      return (entrances.length > 0 ? entrances : [ANY]).map((name) => ({ name, port }));
    });
}
