import {
  type Container,
  findWorkloads,
  type Manifest,
  type NetworkPeer,
  type PodSpec,
  type Spec,
  type Trigger,
} from './manifest.ts';

/** Finds an object. */
export function find(manifests: Manifest[], kind: string, name: string): Manifest {
  const found = manifests.find((one) => one.kind === kind && one.metadata.name === name);
  if (found === undefined) throw new Error(`${kind} ${name} is not rendered`);
  return found;
}

function spec(manifests: Manifest[], kind: string, name: string): Spec {
  return find(manifests, kind, name).spec ?? {};
}

/** Removes an object. */
export function remove(manifests: Manifest[], kind: string, name: string): void {
  manifests.splice(manifests.indexOf(find(manifests, kind, name)), 1);
}

/** Breaks rendered manifests in place. */
export type Change = (manifests: Manifest[]) => void;

/** A change, the overlay that it is made to, and a part of the line that names it. */
export type BrokenManifest = readonly [line: string, overlay: string, change: Change];

export const PROD = 'k8s/overlays/prod';
export const PLAIN = 'k8s/overlays/plain';
export const DEV = 'k8s/overlays/dev';
export const MONGODB_REPLICA_SET = 'k8s/overlays/mongodb-replica-set';
export const VALKEY_SENTINEL = 'k8s/overlays/valkey-sentinel';
export const ALL = 'test/deploy/all-components';

/** Changes the pods of a workload, the api if none is named. */
export function inPod(change: (pod: PodSpec) => void, workload = 'api'): Change {
  return (manifests) => {
    const found = findWorkloads(manifests).find(({ name }) => name === workload);
    if (found === undefined) throw new Error(`${workload} is not rendered`);
    change(found.pod);
  };
}

/** Changes the container of a workload, the api if none is named. */
export function inContainer(change: (container: Container) => void, workload = 'api'): Change {
  return inPod(({ containers: [container] }) => change(container as Container), workload);
}

/** Changes a variable of a workload; undefined removes it. */
export function inEnv(name: string, value: string | undefined, workload = 'api'): Change {
  return inContainer((container) => {
    container.env = (container.env ?? []).filter((variable) => variable.name !== name);
    if (value !== undefined) container.env.push({ name, value });
  }, workload);
}

/** Changes a trigger of an autoscaler. */
export function inTrigger(name: string, change: (metadata: Trigger['metadata']) => void): Change {
  return (manifests) => {
    const triggers = manifests.flatMap((manifest) => manifest.spec?.triggers ?? []);
    change(triggers.find((trigger) => trigger.name === name)?.metadata ?? {});
  };
}

/** Replaces the peers of the first rule of a network policy; undefined stands for any. */
export function inPeers(
  direction: 'ingress' | 'egress',
  policy: string,
  peers: NetworkPeer[] | undefined,
): Change {
  return inSpec('NetworkPolicy', policy, (s) => {
    const rule = s[direction]?.[0];
    if (rule === undefined) throw new Error(`${policy} has no rule for ${direction}`);
    Object.assign(rule, direction === 'ingress' ? { from: peers } : { to: peers });
  });
}

/** Changes what an object specifies. */
export function inSpec(kind: string, name: string, change: (spec: Spec) => void): Change {
  return (manifests) => change(spec(manifests, kind, name));
}
