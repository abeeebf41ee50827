"""A web service: one model, a thread for each request."""

import http.server
import json
import sys
import threading
import urllib.request

import coremltools as ct
import numpy as np

model = ct.models.MLModel(f"{sys.argv[1]}/net.mlpackage")


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        x = np.array(json.loads(body), np.float32).reshape(1, 4, 16, 16)
        answer = json.dumps(float(model.predict({"x": x})["y"].sum())).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        """Prints nothing."""


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/"
for seed in range(20):
    numbers = np.random.default_rng(seed).random(1024).tolist()
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(numbers).encode())).read()
server.shutdown()
server.server_close()
