// The one file behind `npm start`, `npm test` and `npm run carillon`. It and everything under
// bootstrap/ is plain JavaScript on Node's own modules: it runs before anything is installed, on
// whatever Node the machine has.

const COMMANDS = ['start', 'test', 'carillon'];
const OLDEST_NODE = 18;

async function main() {
  if (Number(process.versions.node.split('.')[0]) < OLDEST_NODE) {
    throw new Error(
      `Carillon needs Node ${OLDEST_NODE} or newer to start, and this is ${process.version}. Install a current Node and run the command again.`,
    );
  }
  const [command, ...args] = process.argv.slice(2);
  if (!COMMANDS.includes(command)) {
    throw new Error(`Say what to do: node services/supervisor/bootstrap.mjs ${COMMANDS.join('|')}`);
  }
  // Imported late, so that an old Node meets the sentence above and no syntax it can't read.
  const { runCommand } = await import('./bootstrap/command.mjs');
  process.exitCode = await runCommand(command, args);
}

main().catch((error) => {
  // A sentence meant for the reader, unless it is a fault of ours: that one shows where it is.
  const expected = error.constructor === Error || error.name === 'Refusal';
  process.stderr.write(`${expected ? error.message : error.stack}\n`);
  process.exitCode = error.exitCode ?? 1;
});
