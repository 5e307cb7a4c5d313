import { default as ParallelRunner } from 'jest-runner';

/** Jest's runner, one file at a time however many workers there are. */
export default class SerialRunner extends ParallelRunner {
  isSerial = true;
}
