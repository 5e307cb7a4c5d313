import { default as ParallelRunner } from 'jest-runner';
import { shareMongod } from '../mongod-server.ts';

/**
 * Jest's runner with three workers more: many files of the tier fast wait for timers, and leave a processor idle. All files
 * share a mongod, on which each has a database of its own: to start fifty would take a sixth of the tier's time.
 */
export default class FastRunner extends ParallelRunner {
  constructor(globalConfig, context) {
    super({ ...globalConfig, maxWorkers: globalConfig.maxWorkers + 3 }, context);
  }

  async runTests(...run) {
    const stopMongod = await shareMongod();
    try {
      await super.runTests(...run);
    } finally {
      await stopMongod();
    }
  }
}
