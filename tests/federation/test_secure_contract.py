from contracts.federation import FederationContract
from fedspca.federation.secure import secure_federation


class TestSecureFederation(FederationContract):
    def federate(self, sites):
        return secure_federation(sites)
