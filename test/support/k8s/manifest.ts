/** The fields of Kubernetes' objects that the checks read. */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: {
    name: string;
    namespace?: string;
    labels?: Labels;
    annotations?: Labels;
  };
  spec?: Spec;
}

export type Labels = Record<string, string>;

export interface LabelSelector {
  matchLabels?: Labels;
  matchExpressions?: { key: string; operator: string; values?: string[] }[];
}

/** All fields of all kinds; which are there depends on the kind. */
export interface Spec {
  replicas?: number;
  /** Of a MongoDBCommunity. */
  members?: number;
  minReadySeconds?: number;
  type?: string;
  externalTrafficPolicy?: string;
  /** Of a Deployment a LabelSelector, of a Service its labels. */
  selector?: LabelSelector & Labels;
  template?: { metadata: { labels: Labels }; spec: PodSpec };
  volumeClaimTemplates?: { metadata: { name: string } }[];
  maxUnavailable?: number;
  ports?: { name?: string; port: number; targetPort?: string | number }[];
  podSelector?: LabelSelector;
  policyTypes?: string[];
  ingress?: NetworkRule[];
  egress?: NetworkRule[];
  scaleTargetRef?: { name: string };
  minReplicaCount?: number;
  maxReplicaCount?: number;
  minReplicas?: number;
  fallback?: object;
  triggers?: Trigger[];
  /** Of an HTTPRoute. */
  hostnames?: string[];
  /** Of a route of the Gateway API or an Ingress. */
  rules?: HttpRule[];
  groups?: { rules: { alert?: string; record?: string; expr: string }[] }[];
}

export interface Trigger {
  type: string;
  name?: string;
  metadata: { query?: string; threshold?: string; ignoreNullValues?: string };
}

export interface HttpRule {
  host?: string;
  http?: {
    paths: { backend: { service: { name: string; port?: { name?: string; number?: number } } } }[];
  };
  backendRefs?: { name: string; port?: number }[];
}

export interface NetworkRule {
  from?: NetworkPeer[];
  to?: NetworkPeer[];
  ports?: { protocol?: string; port?: number | string; endPort?: number }[];
}

export interface NetworkPeer {
  podSelector?: LabelSelector;
  namespaceSelector?: LabelSelector;
  ipBlock?: { cidr: string; except?: string[] };
}

export interface PodSpec {
  automountServiceAccountToken?: boolean;
  enableServiceLinks?: boolean;
  terminationGracePeriodSeconds?: number;
  securityContext?: {
    runAsNonRoot?: boolean;
    runAsUser?: number;
    seccompProfile?: { type: string };
  };
  topologySpreadConstraints?: { topologyKey: string; labelSelector?: LabelSelector }[];
  containers: Container[];
  volumes?: Volume[];
}

export interface Volume {
  name: string;
  emptyDir?: object;
  secret?: { secretName: string; items?: { key: string; path: string }[] };
  configMap?: { name: string };
  hostPath?: { path: string; type: string };
}

export interface Probe {
  httpGet?: { path: string; port: string | number };
}

export interface Container {
  name: string;
  image: string;
  imagePullPolicy?: string;
  command?: string[];
  args?: string[];
  env?: { name: string; value?: string; valueFrom?: object }[];
  ports?: { name: string; containerPort: number }[];
  startupProbe?: Probe;
  livenessProbe?: Probe;
  readinessProbe?: Probe;
  lifecycle?: { preStop?: { sleep?: { seconds: number } } };
  resources?: { requests?: Labels; limits?: Labels };
  securityContext?: {
    allowPrivilegeEscalation?: boolean;
    readOnlyRootFilesystem?: boolean;
    privileged?: boolean;
    capabilities?: { drop?: string[]; add?: string[] };
  };
  volumeMounts?: { name: string; mountPath: string; subPath?: string }[];
}

/** A Deployment, StatefulSet or Job. */
export interface Workload {
  kind: string;
  name: string;
  /** Its label app.kubernetes.io/name: the service, whatever the Deployment is called. */
  service: string;
  labels: Labels;
  manifest: Manifest;
  pod: PodSpec;
  container: Container;
}

/** Finds the workloads. */
export function findWorkloads(manifests: readonly Manifest[]): Workload[] {
  return manifests.flatMap((manifest) => {
    const template = manifest.spec?.template;
    const container = template?.spec.containers[0];
    if (template === undefined || container === undefined) return [];
    return {
      kind: manifest.kind,
      name: manifest.metadata.name,
      service: template.metadata.labels['app.kubernetes.io/name'] ?? '',
      labels: template.metadata.labels,
      manifest,
      pod: template.spec,
      container,
    };
  });
}

/** Finds the Deployments, which are the services of Carillon. */
export function findDeployments(manifests: readonly Manifest[]): Workload[] {
  return findWorkloads(manifests).filter(({ kind }) => kind === 'Deployment');
}

/** Operators of a LabelSelector; NotIn is also true for labels without the key. */
const OPERATORS: Readonly<
  Record<string, (value: string | undefined, values: readonly string[]) => boolean>
> = {
  In: (value, values) => value !== undefined && values.includes(value),
  NotIn: (value, values) => value === undefined || !values.includes(value),
  Exists: (value) => value !== undefined,
  DoesNotExist: (value) => value === undefined,
};

/** Checks whether a selector selects these labels; an empty one selects all. */
export function isSelected(selector: LabelSelector, labels: Labels): boolean {
  const { matchLabels = {}, matchExpressions = [] } = selector;
  return (
    Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
    matchExpressions.every(
      ({ key, operator, values = [] }) => OPERATORS[operator]?.(labels[key], values) === true,
    )
  );
}

/** Returns the value of a variable in a manifest; undefined if it is not set there. */
export function findVariable(
  { env = [] }: Pick<Container, 'env'>,
  name: string,
): string | undefined {
  return env.find((variable) => variable.name === name)?.value;
}

/** Returns Mi of a quantity such as 256Mi or 1Gi; NaN if it is another. */
export function parseMebibytes(quantity = ''): number {
  const [, digits, unit] = /^(\d+)(Mi|Gi)$/.exec(quantity) ?? [];
  return Number(digits) * (unit === 'Gi' ? 1_024 : 1);
}
