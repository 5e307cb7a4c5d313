import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Every line that any process of a stack has logged, as `file: line`. */
export function readLogLines(home: string): string[] {
  const folder = join(home, 'logs');
  return readdirSync(folder).flatMap((file) => {
    const lines = readFileSync(join(folder, file), 'utf8').split('\n');
    return lines.filter((line) => line !== '').map((line) => `${file}: ${line}`);
  });
}
