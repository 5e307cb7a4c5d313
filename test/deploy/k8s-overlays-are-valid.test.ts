import { spawnSync } from 'node:child_process';
import { symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { beforeAll, expect, test } from '@jest/globals';
import type { Manifest } from '../support/k8s/manifest.ts';
import { RENDERED, ROOT, render } from '../support/k8s/render.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';

/** Packages with the types of kinds that are not Kubernetes' own, by API group. */
const PACKAGES: Readonly<Record<string, string>> = {
  'cert-manager.io': '@kubernetes-models/cert-manager',
  'gateway.networking.k8s.io': '@kubernetes-models/gateway-api',
  'keda.sh': '@kubernetes-models/keda',
  'monitoring.coreos.com': '@kubernetes-models/prometheus-operator',
};
/** Kinds that no package has types of. */
const UNTYPED = ['MongoDBCommunity'];

const rendered = new Map<string, Manifest[]>();
beforeAll(async () => {
  for (const folder of RENDERED) rendered.set(folder, await render(folder));
}, 300_000);

/** Has the compiler compare manifests with the types of their kinds. @returns its errors */
function findErrors(overlays: ReadonlyMap<string, readonly Manifest[]>): string {
  const folder = createTemporaryFolder();
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  for (const [overlay, manifests] of overlays) {
    const lines = manifests
      .filter(({ kind }) => !UNTYPED.includes(kind))
      .map((manifest) => {
        const { apiVersion, kind } = manifest;
        const name = PACKAGES[apiVersion.split('/')[0] ?? ''] ?? 'kubernetes-models';
        const type = `import('${name}/${apiVersion}/${kind}').I${kind}`;
        return `(${JSON.stringify(manifest, null, 1)}) satisfies ${type};\n`;
      });
    writeFileSync(join(folder, `${basename(overlay)}.mts`), `export {};\n${lines.join('')}`);
  }
  const compilerOptions = { strict: true, noEmit: true, skipLibCheck: true, module: 'nodenext' };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
  return spawnSync(join(ROOT, 'node_modules/.bin/tsc'), ['--project', folder], { encoding: 'utf8' })
    .stdout;
}

test('every overlay has the fields and types of Kubernetes and of the operators', () => {
  expect(rendered.size).toBeGreaterThan(6);
  expect(findErrors(rendered)).toBe('');
}, 60_000);

test.each([
  ['"readinessProbe"', '"readinesProbe"'],
  ['"minReplicaCount"', '"minReplicas"'],
])(
  '%s misspelt as %s is found',
  (key, misspelt) => {
    const prod = JSON.stringify(rendered.get('k8s/overlays/prod')).replace(key, misspelt);
    expect(findErrors(new Map([['prod', JSON.parse(prod)]]))).toContain(misspelt.slice(1, -1));
  },
  60_000,
);
