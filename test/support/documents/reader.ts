import { execFile } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createTemporaryFolder } from '../temporary-folder.ts';

const ROOT = join(import.meta.dirname, '../../..');
const TIMEOUT_MS = 60_000;
const run = promisify(execFile);

/** A reader who runs the code of documents in a folder of its own. */
export type Reader = ReturnType<typeof createReader>;

/** Creates a reader of documents with `carillon` for the stack of a folder. @param home the folder */
export function createReader(home: string) {
  const folder = createTemporaryFolder();
  const command = join(folder, 'carillon');
  writeFileSync(
    command,
    `#!/bin/sh\nexec ${process.execPath} ${ROOT}/services/cli/src/main.ts "$@"\n`,
  );
  chmodSync(command, 0o755);
  const inherited = { HOME: process.env.HOME, NODE_PATH: join(ROOT, 'node_modules') };

  async function execute(
    file: string,
    args: readonly string[],
    variables: Record<string, string>,
  ): Promise<string> {
    const path = `${folder}:${process.env.PATH}`;
    const env = { ...inherited, CARILLON_HOME: home, ...variables, PATH: path };
    return (await run(file, args, { cwd: folder, env, timeout: TIMEOUT_MS })).stdout;
  }

  return {
    /** Writes a file into its folder. */
    write: (name: string, content: string | Buffer) => writeFileSync(join(folder, name), content),
    /** Runs shell commands, whose placeholders are variables. Returns what they print. @throws when one of them fails */
    runShell: (text: string, variables: Record<string, string> = {}) =>
      execute('bash', ['-euo', 'pipefail', '-c', text], variables),
    /** Runs JavaScript, whose placeholders are constants. */
    runJs: (text: string, variables: Record<string, string> = {}) => {
      const names = Object.keys(variables).join(', ');
      return execute(
        process.execPath,
        ['-e', `const { ${names} } = process.env;\n${text}`],
        variables,
      );
    },
  };
}
