import {
  type Container,
  findWorkloads,
  type HttpRule,
  isSelected,
  type Labels,
  type Manifest,
} from './manifest.ts';

/** Pods of one template: those of a workload, or the members of a replica set that MongoDB's operator makes. */
export interface PodGroup {
  name: string;
  labels: Labels;
  container: Pick<Container, 'args' | 'env' | 'ports'>;
  /** Number of members; undefined for a workload. */
  members?: number;
}

/** A port of the pods of a group, for instance `4000/TCP`. */
export interface PodPort {
  group: string;
  port: string;
}

/** Finds the pods of the manifests. */
export function findPodGroups(manifests: readonly Manifest[]): PodGroup[] {
  return [...findWorkloads(manifests), ...findReplicaSets(manifests)];
}

/** Finds the members that MongoDB's operator makes; it labels them with the name of their Service. */
function findReplicaSets(manifests: readonly Manifest[]): PodGroup[] {
  return manifests
    .filter(({ kind }) => kind === 'MongoDBCommunity')
    .map(({ metadata: { name }, spec }) => ({
      name,
      labels: { app: `${name}-svc` },
      container: { ports: [{ name: 'mongodb', containerPort: 27_017 }] },
      members: spec?.members ?? 1,
    }));
}

/** Lists the ports of the pods of a group. */
export function listPodPorts({ name, container }: PodGroup): PodPort[] {
  const ports = container.ports ?? [];
  return ports.map(({ containerPort }) => ({ group: name, port: `${containerPort}/TCP` }));
}

/** Finds the pods that a Service selects; none if there is no such Service. */
export function findPodsOfService(manifests: readonly Manifest[], service: string): PodGroup[] {
  const selector = findService(manifests, service)?.spec?.selector;
  if (selector === undefined) return [];
  return findPodGroups(manifests).filter(({ labels }) =>
    isSelected({ matchLabels: { ...selector } }, labels),
  );
}

function findService(manifests: readonly Manifest[], service: string): Manifest | undefined {
  return manifests.find(({ kind, metadata }) => kind === 'Service' && metadata.name === service);
}

/** Finds the ports of pods to which a port of a Service leads. */
export function findBackends(
  manifests: readonly Manifest[],
  service: string,
  port: string | number | undefined,
): PodPort[] {
  const { ports = [] } = findService(manifests, service)?.spec ?? {};
  const target = ports.find((candidate) => candidate.port === port || candidate.name === port);
  return findPodsOfService(manifests, service).flatMap(({ name: group, container }) => {
    const named = container.ports?.find(({ name }) => name === target?.targetPort);
    return named === undefined ? [] : { group, port: `${named.containerPort}/TCP` };
  });
}

/** Lists the Services and ports to which a rule of an Ingress or of a route leads. */
export function listBackends({
  http,
  backendRefs = [],
}: HttpRule): { name: string; port?: string | number }[] {
  const ofIngress = http?.paths.map(({ backend: { service } }) => {
    const port = service.port?.name ?? service.port?.number;
    return { name: service.name, ...(port !== undefined && { port }) };
  });
  return [...(ofIngress ?? []), ...backendRefs];
}
