// Has a cluster's API server check every overlay, and what Helm makes of the chart, in a namespace that is removed afterwards:
//
//   KUBECONFIG=... npm run k8s:check
//
// Each object is applied with strict validation (a key that the server doesn't know is an error), first as a dry run and
// then really, where PodSecurity `restricted` is enforced. A pod is made from each template as a dry run, because only
// for pods PodSecurity refuses; for a Deployment it warns. Then the server has to refuse mistakes: one that accepts them
// has checked nothing. Images and running operators are not needed, only the operators' definitions.

import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseAllDocuments } from 'yaml';
import { OVERLAYS_AS_VALUES, renderWithHelm } from '../test/support/k8s/helm.ts';

const ROOT = fileURLToPath(new URL('../', import.meta.url));
/** All overlays, the components that none of them uses, and the chart, each with what renders it into a namespace. */
const RENDERED = [
  ...[
    ...readdirSync(`${ROOT}k8s/overlays`).map((name) => `k8s/overlays/${name}`),
    'test/deploy/all-components',
  ].map((folder) => [folder, (namespace) => renderInto(folder, namespace)]),
  ...Object.entries(OVERLAYS_AS_VALUES).map(([name, values]) => [
    `k8s/chart as ${name}`,
    (namespace) => renderWithHelm(values, namespace),
  ]),
];
const STRICT = ['apply', '--server-side', '--validate=strict', '-f', '-'];

/** Definitions that overlays need besides Kubernetes' own, with the way to install them. */
const DEFINITIONS = {
  'gateway.networking.k8s.io':
    'kubectl apply --server-side -f https://github.com/kubernetes-sigs/gateway-api/releases/download/v1.5.0/standard-install.yaml',
  'keda.sh': 'helm install keda kedacore/keda --namespace keda --create-namespace',
  'cert-manager.io':
    'helm install cert-manager jetstack/cert-manager --namespace cert-manager --create-namespace --set crds.enabled=true',
  'mongodbcommunity.mongodb.com':
    'helm install mongodb-operator mongodb/mongodb-kubernetes --namespace mongodb --create-namespace',
  'monitoring.coreos.com':
    'helm install prometheus prometheus-community/kube-prometheus-stack --namespace monitoring --create-namespace',
};

/** Mistakes that the server has to refuse: a change of the first object of a kind, and the text of the response. */
const MISTAKES = [
  {
    kind: 'Deployment',
    mistake: 'a misspelt key',
    answer: /readinesProbe/,
    change({ spec }) {
      const [container] = spec.template.spec.containers;
      container.readinesProbe = container.readinessProbe;
    },
  },
  {
    kind: 'PodDisruptionBudget',
    mistake: 'a negative number',
    answer: /maxUnavailable/,
    change({ spec }) {
      spec.maxUnavailable = -3;
    },
  },
  {
    kind: 'Pod',
    mistake: 'a container without a security context',
    answer: /violates PodSecurity "restricted/,
    change({ spec }) {
      delete spec.containers[0].securityContext;
    },
  },
  {
    kind: 'ScaledObject',
    mistake: "a key that isn't KEDA's",
    answer: /minReplicas/,
    change({ spec }) {
      spec.minReplicas = 2;
    },
  },
];

function kubectl(args, input) {
  return execFileSync('kubectl', args, {
    encoding: 'utf8',
    input,
    stdio: 'pipe',
    maxBuffer: 2 ** 26,
  });
}

/** Renders a folder into another namespace. Its own namespace is left out: it is made before. */
function renderInto(folder, namespace) {
  return parseAllDocuments(kubectl(['kustomize', `${ROOT}${folder}`]), { version: '1.1' })
    .map((document) => document.toJS())
    .filter(({ kind }) => kind !== 'Namespace')
    .map((manifest) => ({ ...manifest, metadata: { ...manifest.metadata, namespace } }));
}

/** Lists the kinds of an API version that the server knows; none if it doesn't know the version. */
function readKinds(apiVersion) {
  const path = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  try {
    return JSON.parse(kubectl(['get', '--raw', path])).resources.map(({ kind }) => kind);
  } catch (error) {
    if (/NotFound|could not find/.test(error.stderr)) return [];
    throw error;
  }
}

/** Lists what the server doesn't know, with the command that installs it. */
function findMissingDefinitions(manifests) {
  const versions = [...new Set(manifests.map(({ apiVersion }) => apiVersion))];
  return versions.flatMap((version) => {
    const known = readKinds(version);
    const needed = manifests.filter(({ apiVersion }) => apiVersion === version);
    const missing = [...new Set(needed.map(({ kind }) => kind))].filter(
      (kind) => !known.includes(kind),
    );
    const command = DEFINITIONS[version.split('/')[0]] ?? 'upgrade the cluster';
    return missing.map((kind) => `the cluster does not know ${version} ${kind}; ${command}`);
  });
}

function podOf({ metadata, spec }) {
  const { metadata: ofTemplate, spec: pod } = spec.template;
  // Claims of a StatefulSet become volumes of its pods.
  const claims = (spec.volumeClaimTemplates ?? []).map(({ metadata: { name } }) => ({
    name,
    persistentVolumeClaim: { claimName: name },
  }));
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { ...ofTemplate, name: metadata.name, namespace: metadata.namespace },
    spec: { ...pod, volumes: [...(pod.volumes ?? []), ...claims] },
  };
}

/** @returns errors, each with the object's name */
function apply(manifests, ...options) {
  return manifests.flatMap((manifest) => {
    try {
      kubectl([...STRICT, ...options], JSON.stringify(manifest));
      return [];
    } catch (error) {
      return [`${manifest.kind} ${manifest.metadata.name}: ${error.stderr?.trim() ?? error}`];
    }
  });
}

/** @returns an error for each mistake that the server lets pass, or refuses for another reason */
function tryMistakes(manifests) {
  return MISTAKES.flatMap(({ kind, mistake, answer, change }) => {
    const correct = manifests.find((manifest) => manifest.kind === kind);
    if (correct === undefined) return [];
    const mistaken = structuredClone(correct);
    change(mistaken);
    const [error] = apply([mistaken], '--dry-run=server');
    if (error === undefined) return [`the server accepts ${mistake}`];
    return answer.test(error) ? [] : [`the server does not name ${mistake}: ${error}`];
  });
}

function restrictedNamespace(name) {
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } };
}

/** @returns errors of what is rendered, and the number of its objects */
async function checkRendered(title, render) {
  const name = title.split('/').at(-1).replaceAll(' ', '-');
  const namespace = `carillon-check-${name}-${process.pid}`;
  const manifests = await render(namespace);
  const missing = findMissingDefinitions(manifests);
  if (missing.length > 0) return { errors: missing, count: 0 };
  kubectl(STRICT, JSON.stringify(restrictedNamespace(namespace)));
  try {
    const pods = manifests.filter(({ spec }) => spec?.template !== undefined).map(podOf);
    const errors = [
      ...apply(manifests, '--dry-run=server'),
      ...apply(manifests),
      ...apply(pods, '--dry-run=server'),
    ];
    return {
      errors: errors.length > 0 ? [...new Set(errors)] : tryMistakes([...manifests, ...pods]),
      count: manifests.length,
    };
  } finally {
    kubectl(['delete', 'namespace', namespace, '--wait=false']);
  }
}

if (!process.env.KUBECONFIG) {
  process.stderr.write('Set KUBECONFIG to the configuration of a cluster\n');
  process.exit(2);
}
let failed = false;
try {
  for (const [title, render] of RENDERED) {
    const { errors, count } = await checkRendered(title, render);
    failed ||= errors.length > 0;
    const lines = errors.length > 0 ? errors : [`${count} objects are accepted`];
    process.stdout.write(lines.map((line) => `${title}: ${line}\n`).join(''));
  }
} catch (error) {
  process.stderr.write(`${error.stderr?.trim() ?? error}\n`);
  failed = true;
}
process.exit(failed ? 1 : 0);
