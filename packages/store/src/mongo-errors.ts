import {
  MongoAPIError,
  MongoBulkWriteError,
  MongoError,
  MongoNetworkTimeoutError,
  MongoNotConnectedError,
  MongoOperationTimeoutError,
  MongoServerError,
  MongoTopologyClosedError,
  MongoWriteConcernError,
} from 'mongodb';

/** MongoDB's error code of a duplicate key. */
const DUPLICATE_KEY = 11_000;

/** Returns whether a write failed because a unique index contains its value already. */
export function isDuplicateKey(error: unknown): boolean {
  return error instanceof MongoServerError && error.code === DUPLICATE_KEY;
}

/** Returns whether an index could not be dropped because there is none, or no collection. */
export function isIndexMissing(error: unknown): boolean {
  if (!(error instanceof MongoServerError)) return false;
  return error.codeName === 'IndexNotFound' || error.codeName === 'NamespaceNotFound';
}

/**
 * Error codes of a server that can't work at the moment, for any client. All other codes concern the one operation: its
 * document, key or value.
 */
const OUTAGE_CODES: ReadonlySet<unknown> = new Set([
  6, // HostUnreachable
  7, // HostNotFound
  13, // Unauthorized
  18, // AuthenticationFailed
  50, // MaxTimeMSExpired
  64, // WriteConcernFailed
  79, // UnknownReplWriteConcern
  89, // NetworkTimeout
  91, // ShutdownInProgress
  100, // UnsatisfiableWriteConcern
  133, // FailedToSatisfyReadPreference
  134, // ReadConcernMajorityNotAvailableYet
  189, // PrimarySteppedDown
  202, // NetworkInterfaceExceededTimeLimit
  262, // ExceededTimeLimit
  391, // ReauthenticationRequired
  8_000, // AtlasError
  9_001, // SocketException
  10_058, // LegacyNotPrimary
  10_107, // NotWritablePrimary
  11_600, // InterruptedAtShutdown
  11_602, // InterruptedDueToReplStateChange
  13_435, // NotPrimaryNoSecondaryOk
  13_436, // NotPrimaryOrSecondary
  14_031, // OutOfDiskSpace
]);
/** The driver's and the server's labels of transient errors. */
const TRANSIENT_LABELS = [
  'RetryableWriteError',
  'RetryableReadError',
  'NetworkError',
  'HandshakeError',
];

/** Returns whether MongoDB is unreachable, unresponsive or unable to work; false if a single operation failed. */
export function isOutage(error: unknown): boolean {
  if (!(error instanceof MongoError)) return false;
  if (TRANSIENT_LABELS.some((label) => error.hasErrorLabel(label))) return true;
  if (error instanceof MongoServerError) {
    return OUTAGE_CODES.has(error.code) || hasWriteConcernError(error) || hasNoResponse(error);
  }
  return !(error instanceof MongoAPIError) || isClosedClient(error);
}

/** Error codes of a server that stopped an operation at its time limit. */
const TIME_LIMIT_CODES: ReadonlySet<unknown> = new Set([
  50, // MaxTimeMSExpired
  262, // ExceededTimeLimit
]);

/**
 * Returns whether an operation ended at a time limit of the driver or the server: either MongoDB does not respond, or
 * the operation itself is slow, or it waited for slow ones. True also for a bulk write without a response, whose error
 * does not tell.
 */
export function isTimeLimit(error: unknown): boolean {
  if (error instanceof MongoServerError) {
    return TIME_LIMIT_CODES.has(error.code) || hasNoResponse(error);
  }
  return (
    error instanceof MongoNetworkTimeoutError ||
    error instanceof MongoOperationTimeoutError ||
    // The driver does not export the class.
    (error instanceof MongoError && error.name === 'MongoWaitQueueTimeoutError')
  );
}

/** Returns whether a write took effect, but on too few servers for its write concern. */
function hasWriteConcernError(error: MongoServerError): boolean {
  if (error instanceof MongoWriteConcernError) return true;
  if (!(error instanceof MongoBulkWriteError)) return false;
  return error.result.getWriteConcernError() !== undefined;
}

/** Returns whether a bulk write ended without a response: the driver puts its message, but not its class, into another error. */
function hasNoResponse(error: MongoServerError): boolean {
  if (!(error instanceof MongoBulkWriteError)) return false;
  return error.code === undefined && error.result.getWriteErrorCount() === 0;
}

/** Returns whether an error that the driver raises for misuse is due to a closed connection. */
function isClosedClient(error: MongoAPIError): boolean {
  return error instanceof MongoNotConnectedError || error instanceof MongoTopologyClosedError;
}
