// Run by Node 24 once the dependencies are installed: fetches the vendor's mongod into the folder
// given and prints its path.

import { MongoBinary } from 'mongodb-memory-server-core';

const VERSION = '8.0.15';

const path = await MongoBinary.getPath({
  version: VERSION,
  downloadDir: process.argv[2],
});
process.stdout.write(`${path}\n`);
