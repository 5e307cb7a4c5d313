import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { ABLATIONS, type Ablation, applyEdits } from '../../bench/observability/ablations.ts';
import { ROOT } from '../support/first-run/test-home.ts';

const edits = (Object.keys(ABLATIONS) as Ablation[]).flatMap((name) =>
  ABLATIONS[name].map((edit) => ({ name, file: edit.file })),
);

test.each(edits)('without $name, the benchmark loads an edited $file', ({ name, file }) => {
  const source = readFileSync(`${ROOT}/${file}`, 'utf8');
  expect(applyEdits(ABLATIONS[name], `${ROOT}/${file}`, source)).not.toBe(source);
});
