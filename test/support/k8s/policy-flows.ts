import { SPECIAL_IPV4 } from '../../../services/delivery-worker/src/channels/public-address.ts';
import {
  isSelected,
  type LabelSelector,
  type Labels,
  type Manifest,
  type NetworkPeer,
  type NetworkRule,
  type Spec,
} from './manifest.ts';
import { findPodGroups, type PodGroup } from './pod-groups.ts';

/** Label with the name of a service, or of another program, on its pods. */
export const NAME_LABEL = 'app.kubernetes.io/name';
const NAMESPACE_LABEL = 'kubernetes.io/metadata.name';

/** The peer of a rule that names none. */
export const ANY = 'any';
/** The peer of a rule with exactly the blocks below. */
export const INTERNET = 'internet';

/**
 * All addresses but those that a Web Push endpoint given by a device must not reach: own networks, the node, a cloud's
 * metadata. The exceptions of IPv4 are the networks that the delivery-worker refuses. For IPv6 it has no such list: it allows
 * global addresses and NAT64, whose prefix in a cluster can be any.
 */
export const INTERNET_BLOCKS = [
  { cidr: '0.0.0.0/0', except: SPECIAL_IPV4 },
  { cidr: '::/0', except: ['::1/128', 'fc00::/7', 'fe80::/10'] },
];

/** The other end of a connection, and the port at which the connection ends. */
export interface Peer {
  /** A group of pods, `namespace NAME`, INTERNET or ANY. */
  name: string;
  /** For instance `443/TCP`. */
  port: string;
}

/** Returns the name of all pods of a namespace as a peer. */
export function nameNamespace(namespace: string): string {
  return `namespace ${namespace}`;
}

/** Formats a flow: `api to any 27017/TCP`. */
export function formatFlow(group: string, direction: 'to' | 'from', { name, port }: Peer): string {
  return `${group} ${direction} ${name} ${port}`;
}

/** Finds the policies that select pods with these labels. */
export function findPolicies(manifests: readonly Manifest[], labels: Labels): Manifest[] {
  return manifests.filter(
    ({ kind, spec }) => kind === 'NetworkPolicy' && isSelected(spec?.podSelector ?? {}, labels),
  );
}

/** Lists the flows that the policies allow, each as `deriveFlows` writes it: `api to any 27017/TCP`. */
export function readFlows(manifests: readonly Manifest[]): string[] {
  const groups = findPodGroups(manifests);
  const flows = groups.flatMap(({ name, labels }) =>
    findPolicies(manifests, labels).flatMap(({ spec }) => [
      ...listPeers(spec, 'Egress', groups).map((peer) => formatFlow(name, 'to', peer)),
      ...listPeers(spec, 'Ingress', groups).map((peer) => formatFlow(name, 'from', peer)),
    ]),
  );
  return [...new Set(flows)].sort();
}

/** Lists the peers of one direction of a policy; Kubernetes ignores the rules of a direction that `policyTypes` lacks. */
function listPeers(
  spec: Spec | undefined,
  direction: 'Egress' | 'Ingress',
  groups: readonly PodGroup[],
): Peer[] {
  if (spec?.policyTypes?.includes(direction) === false) return [];
  const rules = direction === 'Egress' ? spec?.egress : spec?.ingress;
  return (rules ?? []).flatMap(({ from, to, ports }) =>
    namePeers(to ?? from, groups).flatMap((name) =>
      listPorts(ports).map((port) => ({ name, port })),
    ),
  );
}

/** Lists the ports of a rule; a rule that names none is for all of them. */
export function listPorts(ports: NetworkRule['ports'] = []): string[] {
  if (ports.length === 0) return ['on all ports'];
  return ports.map(({ port = 'all', endPort, protocol = 'TCP' }) =>
    endPort === undefined ? `${port}/${protocol}` : `${port}-${endPort}/${protocol}`,
  );
}

/** Names the peers of a rule; one that is not of the kinds that settings lead to is named by its JSON. */
function namePeers(peers: readonly NetworkPeer[] = [], groups: readonly PodGroup[]): string[] {
  if (peers.length === 0) return [ANY];
  return [
    ...nameBlocks(peers.flatMap(({ ipBlock }) => ipBlock ?? [])),
    ...peers
      .filter(({ ipBlock }) => ipBlock === undefined)
      .flatMap((peer) =>
        peer.namespaceSelector === undefined
          ? namePods(peer.podSelector, groups)
          : nameOtherPods(peer),
      ),
  ];
}

/** Names blocks of addresses: `internet`, or `internet with 10.0.0.0/8` if that network is not excepted. */
function nameBlocks(blocks: readonly NonNullable<NetworkPeer['ipBlock']>[]): string[] {
  const others = blocks.filter(({ cidr }) => !INTERNET_BLOCKS.some((block) => block.cidr === cidr));
  const names = others.map((block) => JSON.stringify(block));
  if (others.length === blocks.length) return names;
  const differences = INTERNET_BLOCKS.flatMap(({ cidr, except }) => {
    const found = blocks.filter((block) => block.cidr === cidr);
    if (found.length === 0) return [`without ${cidr}`];
    return found.flatMap((block) => [
      ...except.filter((range) => !block.except?.includes(range)).map((range) => `with ${range}`),
      ...(block.except ?? [])
        .filter((range) => !except.includes(range))
        .map((range) => `without ${range}`),
    ]);
  });
  return [[INTERNET, ...differences].join(' '), ...names];
}

/** Names pods of other namespaces. */
function nameOtherPods({ namespaceSelector, podSelector }: NetworkPeer): string[] {
  const { matchLabels = {}, matchExpressions = [] } = namespaceSelector ?? {};
  const { [NAMESPACE_LABEL]: namespace, ...others } = matchLabels;
  const isWhole =
    Object.keys(others).length === 0 && matchExpressions.length === 0 && podSelector === undefined;
  return namespace !== undefined && isWhole
    ? [nameNamespace(namespace)]
    : [JSON.stringify({ namespaceSelector, podSelector })];
}

/** Names pods of the own namespace: the groups that are selected, and the names in the selector that no pods have. */
function namePods(selector: LabelSelector = {}, groups: readonly PodGroup[]): string[] {
  const { matchLabels = {}, matchExpressions = [] } = selector;
  const listed = matchExpressions.filter(({ operator }) => operator === 'In');
  const unknown = [
    matchLabels[NAME_LABEL] ?? [],
    ...listed.filter(({ key }) => key === NAME_LABEL).map(({ values = [] }) => values),
  ]
    .flat()
    .filter((name) => !groups.some(({ labels }) => labels[NAME_LABEL] === name));
  const known = groups.filter(({ labels }) => isSelected(selector, labels)).map(({ name }) => name);
  const names = [...known, ...unknown];
  // Without a label that must have a value, pods that no manifest names are selected, too.
  const isClosed = Object.keys(matchLabels).length + listed.length > 0;
  return isClosed && names.length > 0 ? names : [`pods ${JSON.stringify(selector)}`];
}
