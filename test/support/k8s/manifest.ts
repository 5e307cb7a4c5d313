/** The fields of Kubernetes' objects that the tests read. */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; labels?: Labels };
  /** Of a ServiceAccount. */
  automountServiceAccountToken?: boolean;
  imagePullSecrets?: { name: string }[];
  /** Its other fields depend on the kind. */
  spec?: {
    template?: { metadata: { labels: Labels }; spec: PodSpec };
    volumeClaimTemplates?: { metadata: { name: string } }[];
  };
}

type Labels = Record<string, string>;

interface PodSpec {
  serviceAccountName?: string;
  securityContext?: { runAsUser?: number };
  initContainers?: Container[];
  containers: Container[];
  volumes?: Volume[];
}

export interface Volume {
  name: string;
  secret?: { items?: { key: string }[] };
  configMap?: { name: string };
  hostPath?: { path: string; type: string };
}

export interface Container {
  name: string;
  image: string;
  imagePullPolicy?: string;
  command?: string[];
  args?: string[];
  env?: { name: string; value?: string }[];
  ports?: { name: string }[];
  resources?: { limits?: { memory?: string } };
}

/** A Deployment or StatefulSet. */
export interface Workload {
  name: string;
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
      name: manifest.metadata.name,
      labels: template.metadata.labels,
      manifest,
      pod: template.spec,
      container,
    };
  });
}
