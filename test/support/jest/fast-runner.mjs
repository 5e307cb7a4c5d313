import { default as ParallelRunner } from 'jest-runner';

/** Jest's runner with a worker more: many files of the tier fast wait for timers, and leave a processor idle. */
export default class FastRunner extends ParallelRunner {
  constructor(globalConfig, context) {
    super({ ...globalConfig, maxWorkers: globalConfig.maxWorkers + 1 }, context);
  }
}
