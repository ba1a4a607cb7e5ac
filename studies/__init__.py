"""The paper, figure by figure, and studies of the product beside it: `./run reproduce`.

Everything here decides and learns as production does, by `disco.campaign.decide` and `learn`, about simulated retailers
whose truth is known. It lies beside the package because no retailer runs it.

    reproduce      the command: which items there are, and one run of them
    item, report   a claim of the paper beside our figure, the verdict by one rule, and the pages made of them
    lab, cache     where items get simulated retailers, and how finished work is kept
    environment    simulated shops and their campaigns
    readings       the ways to read the paper's depth encoding
    paper          the eight figures and tables that need no simulation of policies
    policies, ulcc, explanation, ab
                   the larger ones; stage, simulation and ladder are what they play on
    calibration, answers, overspending
                   studies of the product: `./run reproduce calibration` and so on; arguments is how they read theirs
"""
