import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rename, symlink, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Certificate } from '@kubernetes-models/cert-manager/cert-manager.io/v1/Certificate';
import { Gateway } from '@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1/Gateway';
import { HTTPRoute } from '@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1/HTTPRoute';
import { TLSRoute } from '@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1/TLSRoute';
import { ScaledObject } from '@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject';
import { PodMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PodMonitor';
import { PrometheusRule } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule';
import { createTemporaryFolder } from '../temporary-folder.ts';
import { installPythonPackage } from '../with-python/python.ts';
import type { Manifest } from './manifest.ts';
import { ROOT } from './render.ts';

const execFileAsync = promisify(execFile);
const VALIDATOR = 'kubernetes-validate==1.37.0';
const VALIDATOR_FOLDER = join(homedir(), '.cache/carillon', VALIDATOR);
/** The oldest Kubernetes that has the sleep action without a feature gate, and the newest that the validator knows. */
const KUBERNETES_VERSIONS = ['1.30', '1.37'];

const TYPES = '@kubernetes-models';
/** Kinds of others than Kubernetes, with the module of their types and, where a package has one, a schema. */
const CUSTOM_KINDS = {
  Certificate: {
    model: Certificate,
    module: `${TYPES}/cert-manager/cert-manager.io/v1/Certificate`,
  },
  Gateway: { model: Gateway, module: `${TYPES}/gateway-api/gateway.networking.k8s.io/v1/Gateway` },
  HTTPRoute: {
    model: HTTPRoute,
    module: `${TYPES}/gateway-api/gateway.networking.k8s.io/v1/HTTPRoute`,
  },
  TLSRoute: {
    model: TLSRoute,
    module: `${TYPES}/gateway-api/gateway.networking.k8s.io/v1/TLSRoute`,
  },
  ScaledObject: { model: ScaledObject, module: `${TYPES}/keda/keda.sh/v1alpha1/ScaledObject` },
  PodMonitor: {
    model: PodMonitor,
    module: `${TYPES}/prometheus-operator/monitoring.coreos.com/v1/PodMonitor`,
  },
  PrometheusRule: {
    model: PrometheusRule,
    module: `${TYPES}/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule`,
  },
  MongoDBCommunity: {
    model: undefined,
    module: join(ROOT, 'test/support/k8s/mongodb-community.ts'),
  },
};

function isCustomKind(kind: string): kind is keyof typeof CUSTOM_KINDS {
  return kind in CUSTOM_KINDS;
}

/** Installs the validator of PyPI into the user's cache. */
export async function installValidator(): Promise<void> {
  if (existsSync(VALIDATOR_FOLDER)) return;
  await mkdir(join(homedir(), '.cache/carillon'), { recursive: true });
  const unfinished = `${VALIDATOR_FOLDER}.${process.pid}`;
  await installPythonPackage(unfinished, VALIDATOR);
  await rename(unfinished, VALIDATOR_FOLDER);
}

/**
 * Validates manifests against the schemas of their kinds; a key that the schema doesn't have is an error.
 *
 * @returns the output of the validators; empty if they find nothing
 */
export async function validate(manifests: readonly Manifest[]): Promise<string> {
  const folder = createTemporaryFolder();
  const custom = manifests.filter(({ kind }) => isCustomKind(kind));
  const ofKubernetes = manifests.filter(({ kind }) => !isCustomKind(kind));
  const findings = [
    ...custom.map(findSchemaError),
    await findUnknownKeys(folder, custom),
    ...(await Promise.all(
      KUBERNETES_VERSIONS.map((version) => validateOwnKinds(folder, ofKubernetes, version)),
    )),
  ];
  return findings.filter(Boolean).join('\n');
}

async function validateOwnKinds(
  folder: string,
  manifests: readonly Manifest[],
  version: string,
): Promise<string> {
  if (manifests.length === 0) return '';
  const path = join(folder, `${version}.yaml`);
  await writeFile(path, manifests.map((manifest) => JSON.stringify(manifest)).join('\n---\n'));
  // A kind without a schema is only a warning, on the same stream.
  const args = ['-m', 'kubernetes_validate', '--strict', '--quiet', '-k', version, path];
  return run('python3', args, { PYTHONPATH: VALIDATOR_FOLDER });
}

/** Finds wrong types and missing fields. */
function findSchemaError(manifest: Manifest): string {
  const { model: Model } = CUSTOM_KINDS[manifest.kind as keyof typeof CUSTOM_KINDS];
  // The types are complete.
  if (Model === undefined) return '';
  try {
    new Model(manifest as never).validate();
    return '';
  } catch (error) {
    return `${manifest.kind} ${manifest.metadata.name}: ${(error as Error).message}`;
  }
}

/** Finds misspelt keys by the compiler: those schemas let them pass, and the types don't. */
async function findUnknownKeys(folder: string, manifests: readonly Manifest[]): Promise<string> {
  if (manifests.length === 0) return '';
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const lines = manifests.map((manifest, index) => {
    const { module } = CUSTOM_KINDS[manifest.kind as keyof typeof CUSTOM_KINDS];
    const type = `import('${module}').I${manifest.kind}`;
    return `export const manifest${index} = ${JSON.stringify(manifest, null, 2)} satisfies ${type};`;
  });
  await writeFile(join(folder, 'manifests.mts'), lines.join('\n'));
  const compilerOptions = { noEmit: true, strict: true, skipLibCheck: true, types: [] };
  const modules = { module: 'nodenext', allowImportingTsExtensions: true };
  const options = { compilerOptions: { ...compilerOptions, ...modules } };
  await writeFile(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ ...options, files: ['manifests.mts'] }),
  );
  return run(join(ROOT, 'node_modules/.bin/tsc'), ['--pretty', 'false', '--project', folder]);
}

/** Runs a program. @returns its output if it fails, else nothing */
async function run(program: string, args: string[], env: object = {}): Promise<string> {
  try {
    const { stdout, stderr } = await execFileAsync(program, args, {
      env: { ...process.env, ...env },
    });
    return `${stdout}${stderr}`.includes('WARN') ? `${stdout}${stderr}` : '';
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    return `${stdout}${stderr}` || String(error);
  }
}
