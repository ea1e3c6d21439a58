/** How a worker ends what it waits for. */
/** Controllers that are aborted together. One signal for all would collect listeners. */
export declare class Ending {
    #private;
    begin(): AbortController;
    forget(controller: AbortController): void;
    abort(reason: Error): void;
}
