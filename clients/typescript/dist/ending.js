/** How a worker ends what it waits for. */
/** Controllers that are aborted together. One signal for all would collect listeners. */
export class Ending {
    #open = new Set();
    #reason;
    begin() {
        const controller = new AbortController();
        if (this.#reason)
            controller.abort(this.#reason);
        else
            this.#open.add(controller);
        return controller;
    }
    forget(controller) {
        this.#open.delete(controller);
    }
    abort(reason) {
        this.#reason ??= reason;
        for (const controller of this.#open)
            controller.abort(reason);
        this.#open.clear();
    }
}
