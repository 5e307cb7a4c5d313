// Entry point of `npm start`, `npm run dev`, `npm test` and `npm run carillon`. This file and everything under
// bootstrap/ is plain JavaScript that imports only Node's built-in modules: it runs before any
// dependency is installed, on any Node of version 18 or newer.

const COMMANDS = ['start', 'dev', 'test', 'carillon'];
const MIN_NODE_MAJOR = 18;

async function main() {
  if (Number(process.versions.node.split('.')[0]) < MIN_NODE_MAJOR) {
    const way =
      process.platform === 'darwin' ? 'brew install node' : 'https://nodejs.org/en/download';
    throw new Error(
      `Carillon needs Node ${MIN_NODE_MAJOR} or newer to start, and this is ${process.version}. Install a current Node (${way}) and run the command again.`,
    );
  }
  const [command, ...args] = process.argv.slice(2);
  if (!COMMANDS.includes(command)) {
    throw new Error(`Usage: node tools/supervisor/bootstrap.mjs ${COMMANDS.join('|')}`);
  }
  // Imported late: an older Node prints the error above instead of a syntax error.
  const { runCommand } = await import('./bootstrap/command.mjs');
  process.exitCode = await runCommand(command, args);
}

// Output that can't be written (its file is on a full disk, its reader has ended) must not end the stack.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
main().catch((error) => {
  // An expected error prints its message only. A bug also prints the stack.
  const expected = error.constructor === Error || error.name === 'UserError';
  process.stderr.write(`${expected ? error.message : error.stack}\n`);
  process.exitCode = error.exitCode ?? 1;
});
